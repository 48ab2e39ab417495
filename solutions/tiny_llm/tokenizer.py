"""Byte-level BPE: text to token ids and back, and a streaming detokenizer."""

import codecs
import functools
import itertools
import json
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import regex

# GPT-2's pattern for splitting text into words; newer tokenizers have their own.
GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def byte_alphabet() -> dict[int, str]:
    """Return a printable character for each byte, so that a token of any bytes can be written in a JSON file.

    Returns:
        A new dict of 256 distinct characters. Bytes that are visible in Latin-1 (33-126, 161-172, 174-255) map to
        themselves; the others, in ascending order, to the characters from U+0100 on: the space is "\u0120".

    Source: Radford et al. 2019 (GPT-2).
    """
    visible = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {byte: chr(byte) for byte in visible} | {byte: chr(256 + i) for i, byte in enumerate(hidden)}


def merge_pairs(symbols: list[str], ranks: dict[tuple[str, str], int]) -> list[str]:
    """Merge adjacent pairs, the pair learned first before all others, until no adjacent pair is known.

    All occurrences of the pair that was learned first are merged, from left to right, and only then the next pair: with
    "a" + "a", "aaa" becomes "aa" and "a". Two pairs that spell the same, such as "a" + "bc" and "ab" + "c", remain two
    pairs.

    Args:
        symbols: a word in pieces; in `encode` one for each byte. It is not changed.
        ranks: the pairs that may be merged; the lowest number was learned first. A pair was learned after all pairs
            that produce one of its two pieces.

    Returns:
        The remaining pieces, which spell the same word.

    Source: Sennrich et al. 2016, section 3.2.
    """
    symbols = list(symbols)
    while True:
        pairs = [pair for pair in itertools.pairwise(symbols) if pair in ranks]
        if not pairs:
            return symbols
        first, second = min(pairs, key=ranks.__getitem__)
        merged: list[str] = []
        for symbol in symbols:
            # A piece that was just merged is longer than `first`, so no symbol is used twice.
            if symbol == second and merged and merged[-1] == first:
                merged[-1] = first + second
            else:
                merged.append(symbol)
        symbols = merged


class ByteLevelBPE:
    """The tokenizer of GPT-2, Qwen and Llama 3. No character is unknown, as every byte is a token."""

    def __init__(
        self,
        vocab: dict[str, int],
        merges: list[tuple[str, str]],
        special_tokens: dict[str, int] | None = None,
        pattern: str = GPT2_PATTERN,
        normalization: str | None = None,
        ignore_merges: bool = False,
    ) -> None:
        """Store the tables.

        Args:
            vocab: the id of each token, in the characters of `byte_alphabet`; ids in any order.
            merges: the pairs in the order in which they were learned.
            special_tokens: the ids of tokens that are matched literally in the text and never split; any ids.
            pattern: a regular expression without groups whose matches are the words; no token spans two words.
            normalization: a Unicode form such as "NFC" that is applied to the text first, or None.
            ignore_merges: a word that is a token as a whole is not merged from its bytes (Llama 3).
        """
        self.vocab, self.special_tokens, self.normalization = vocab, special_tokens or {}, normalization
        self.ignore_merges = ignore_merges
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.alphabet = byte_alphabet()
        byte_of = {character: byte for byte, character in self.alphabet.items()}
        self.token_bytes = {number: bytes(byte_of[c] for c in token) for token, number in vocab.items()}
        self.token_bytes |= {number: token.encode() for token, number in self.special_tokens.items()}
        # Unicode's own white space: Python's \s also takes four control characters (U+001C to U+001F).
        self.words = regex.compile(pattern.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}"))
        longest_first = sorted(self.special_tokens, key=len, reverse=True)
        self.specials = regex.compile("(" + "|".join(map(regex.escape, longest_first)) + ")") if longest_first else None
        self.encode_word = functools.lru_cache(maxsize=65536)(self._encode_word)

    @classmethod
    def from_file(cls, path: Path) -> "ByteLevelBPE":
        """Read a tokenizer.json.

        Raises:
            ValueError: it describes a different kind of tokenizer.
        """
        data = json.loads(path.read_text(encoding="utf-8"))
        model, normalization = data["model"], (data.get("normalizer") or {}).get("type")
        steps = data.get("pre_tokenizer") or {}
        steps = steps.get("pretokenizers", [steps])
        byte_level = [step for step in steps if step.get("type") == "ByteLevel"]
        splits = [step for step in steps if step.get("type") == "Split"]
        patterns = [step["pattern"].get("Regex") for step in splits]
        added = data.get("added_tokens", [])
        conditions = ("lstrip", "rstrip", "single_word", "normalized")
        for what, refused in {
            f"is of type {model.get('type')}": model.get("type") != "BPE" or model.get("byte_fallback"),
            "has no byte-level step": not byte_level,
            "adds a space before the text": any(step.get("add_prefix_space") for step in byte_level),
            "splits words in more than one way": len(patterns) > 1 or None in patterns,
            "does more than split": any(step.get("behavior") != "Isolated" or step.get("invert") for step in splits),
            "splits twice, or not at all": any(s.get("use_regex", True) == bool(patterns) for s in byte_level),
            "finds special tokens only under conditions": any(t.get(c) for t in added for c in conditions),
            f"normalizes by {normalization}": normalization not in (None, "NFC", "NFD", "NFKC", "NFKD"),
        }.items():
            if refused:
                raise ValueError(f"{path.name} cannot be read as byte-level BPE: it {what}")
        return cls(
            vocab=model["vocab"],
            merges=[tuple(pair.split(" ") if isinstance(pair, str) else pair) for pair in model["merges"]],
            special_tokens={token["content"]: token["id"] for token in added},
            pattern=patterns[0] if patterns else GPT2_PATTERN,
            normalization=normalization,
            ignore_merges=bool(model.get("ignore_merges")),
        )

    def encode(self, text: str) -> list[int]:
        """Convert text to token ids.

        Special tokens in the text become their ids; if several match at the same place, the longest wins. The text
        between them is normalized, split into words, and each word's UTF-8 bytes are merged into tokens.

        Args:
            text: any string without lone surrogates.

        Returns:
            The ids, in a new list; empty for the empty text.

        Source: Hugging Face's `tokenizers`, which gives the same ids.
        """
        ids: list[int] = []
        for part in self.specials.split(text) if self.specials else [text]:
            if part in self.special_tokens:
                ids.append(self.special_tokens[part])
                continue
            if self.normalization:
                part = unicodedata.normalize(self.normalization, part)  # type: ignore[arg-type]
            for word in self.words.findall(part):
                ids.extend(self.encode_word(word))
        return ids

    def _encode_word(self, word: str) -> tuple[int, ...]:
        letters = [self.alphabet[byte] for byte in word.encode()]
        if self.ignore_merges and (token := "".join(letters)) in self.vocab:
            return (self.vocab[token],)
        return tuple(self.vocab[token] for token in merge_pairs(letters, self.ranks))

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> str:
        """Convert token ids to text.

        Args:
            ids: any tokens, not only those that `encode` would return.
            skip_special_tokens: omit special tokens.

        Returns:
            The text; bytes that are not UTF-8 become U+FFFD: one for an unfinished character, one for each other byte.

        Raises:
            KeyError: an id is unknown.
        """
        special = set(self.special_tokens.values()) if skip_special_tokens else set()
        return b"".join(self.token_bytes[i] for i in ids if i not in special).decode("utf-8", errors="replace")


class StreamingDetokenizer:
    """Converts ids to text one at a time, never emitting an incomplete character: a token may end inside one."""

    def __init__(self, tokenizer: ByteLevelBPE, skip_special_tokens: bool = True) -> None:
        """Start with no text.

        Args:
            tokenizer: its `token_bytes` are the bytes of each id.
            skip_special_tokens: omit special tokens.
        """
        self.tokenizer = tokenizer
        self.skipped = set(tokenizer.special_tokens.values()) if skip_special_tokens else set()
        self.decoder: Any = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def add(self, token: int) -> str:
        """Add a token and return the characters that it completes; often one word, sometimes nothing.

        Bytes that are not UTF-8 become U+FFFD and do not block the text after them.
        """
        if token in self.skipped:
            return ""
        text: str = self.decoder.decode(self.tokenizer.token_bytes[token])
        return text

    def finish(self) -> str:
        """End the text and return what is still held back: U+FFFD for an incomplete character, otherwise nothing.

        All pieces together are what `ByteLevelBPE.decode` returns for all tokens.
        """
        text: str = self.decoder.decode(b"", final=True)
        return text
