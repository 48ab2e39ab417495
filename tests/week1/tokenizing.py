"""Byte-level BPE by slow formulas on bytes, the tables of tokenizer.json and random ones, and recorded ids.

The recorded ids are those of Hugging Face's `tokenizers` (`record_ids.py`).
"""

import itertools
import json
import unicodedata
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import strategies as st
from tests.week1.drawn_tables import drawn_tables

from tiny_llm_course.testkit.texts import awkward_texts

FOLDER = Path(__file__).parent
TABLES = FOLDER / "tokenizer.json"
RECORDED = json.loads((FOLDER / "token_ids.json").read_text(encoding="utf-8"))
END, START, STOP = 656, 657, 658  # <|endoftext|>, <|im_start|>, <|im_end|> in tokenizer.json
# Every character except U+FFFD, which marks invalid bytes, and surrogates, which are not characters.
CHARACTER = st.integers(0, 0x10FFFF - 0x800 - 1).map(lambda n: chr(n + 0x800 * (n >= 0xD800) + (n >= 0xFFFD - 0x800)))
ANY_TEXT = st.one_of(st.text("ab \n\u00e9\u0301\u72d7", max_size=12), st.lists(CHARACTER, max_size=6).map("".join))
every_recorded = pytest.mark.parametrize("row", RECORDED, ids=lambda row: row["name"])


def words(text):
    """Return a text as a case shows it, with every character visible."""
    shown = ascii(text)
    return shown if len(shown) <= 60 else f"{shown[:56]} ..."


def alphabet_formula():
    """A byte maps to itself unless its character is a control, space or format character in Unicode."""
    hidden = [byte for byte in range(256) if unicodedata.category(chr(byte)) in ("Cc", "Zs", "Cf")]
    return {byte: chr(256 + hidden.index(byte)) if byte in hidden else chr(byte) for byte in range(256)}


def merge_formula(symbols, ranks):
    """One merge at a time: the leftmost pair of the lowest rank."""
    symbols = list(symbols)
    while True:
        found = [(ranks[pair], i) for i, pair in enumerate(itertools.pairwise(symbols)) if pair in ranks]
        if not found:
            return symbols
        _, i = min(found)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


def by_hand(specials=None, normalization=None, **pattern):
    """The tables of a tokenizer: the 256 bytes, tokens 256 to 266 in the byte alphabet, special tokens."""
    pairs = "a+t t+h th+at T+h Th+at \u0120+i \u0120i+s d+o do+g \u0120+dog \u00c3+\u00a9 s+\u0120"
    merges = [(a, b) for a, _, b in (pair.partition("+") for pair in pairs.split())]
    vocab = {letter: byte for byte, letter in alphabet_formula().items()}
    vocab |= {"".join(pair): 256 + i for i, pair in enumerate(merges)}
    return {"vocab": vocab, "merges": merges, "special_tokens": specials, "normalization": normalization, **pattern}


AT, TH, THAT, CAP_TH, CAP_THAT, SPACE_I, SPACE_IS, DO, DOG, SPACE_DOG, E_ACUTE, S_SPACE = range(256, 268)
SPECIALS = {"<|end|>": 300, "<|e": 301, "<|end|><|end|>": 302, "dog": 303, "e\u0301": 304}


def encode_formula(text, ranks, vocab, specials, pattern, form):
    """Scan greedily for special tokens; split the rest into words; merge each word's bytes one pair at a time."""
    # White space is Unicode's, without the four control characters that Python's own adds.
    pattern = pattern.replace(r"\s", r"\p{White_Space}").replace(r"\S", r"\P{White_Space}")
    letters, rest = alphabet_formula(), ""
    ids: list[int] = []

    def flush(part):
        for match in regex.finditer(pattern, unicodedata.normalize(form, part)):
            ids.extend(vocab[t] for t in merge_formula([letters[b] for b in match[0].encode()], ranks))

    while text:
        found = max((s for s in specials if text.startswith(s)), key=len, default=None)
        if found is None:
            rest, text = rest + text[0], text[1:]
        else:
            flush(rest)
            ids.append(specials[found])
            rest, text = "", text[len(found) :]
    flush(rest)
    return ids


@cache
def tables():
    data = json.loads(TABLES.read_text(encoding="utf-8"))
    ranks = {tuple(pair.split(" ")): i for i, pair in enumerate(data["model"]["merges"])}
    special = {token["content"]: token["id"] for token in data["added_tokens"]}
    pattern = data["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
    return ranks, data["model"]["vocab"], special, pattern


MORE_SPECIALS = ["<|e\u0301|>", "<|", "ab", "<|end|>"]


@cache
def random_tables(seed):
    return drawn_tables(seed, alphabet_formula(), MORE_SPECIALS)


def pieces_of():
    """Return the bytes of each token, without the learner's code."""
    _, vocab, special, _ = tables()
    byte_of = {letter: byte for byte, letter in alphabet_formula().items()}
    pieces = {i: bytes(byte_of[letter] for letter in token) for token, i in vocab.items()}
    return pieces | {i: token.encode() for token, i in special.items()}


PIECES = pieces_of()
SPECIAL_IDS = [END, START, STOP]


def decode_formula(ids, skip=False, pieces=PIECES, specials=SPECIAL_IDS):
    return b"".join(pieces[i] for i in ids if not (skip and i in specials)).decode("utf-8", errors="replace")


@cache
def awkward_ids():
    """Return the sweep's texts as tokens; every token alone, and next to others."""
    ranks, vocab, special, pattern = tables()
    texts = [encode_formula(text, ranks, vocab, special, pattern, "NFC") for text in awkward_texts()]
    return [*([i] for i in PIECES), *([i, 267, (i * 7) % 659] for i in PIECES), *texts, [*PIECES] * 7]


@cache
def streams_of_every_sort(seed):
    """For random tables: all short lists of CR LF, the two bytes of a character, invalid bytes, the start of a long
    character and special tokens, in every order; and some long ones.
    """
    tables = random_tables(seed)
    id_of = {piece: number for number, piece in tables.bytes_of.items()}
    a_few = [b"\r\n", b"\xc3", b"\xa9", b"\xff", b"\xf0", b"<|end|>", "<|e\u0301|>".encode()]
    sorts = [id_of[piece] for piece in a_few]
    generator = np.random.default_rng(seed)
    some = [[*map(int, generator.choice(sorts, length))] for length in range(4, 30)]
    return [[*ids] for n in range(4) for ids in itertools.product(sorts, repeat=n)][seed::2] + some


def stream_formula(ids):
    """For valid text, return after each token the newly completed characters."""
    shown, begun, pieces = 0, b"", []
    for i in ids:
        begun += PIECES[i]
        whole = len(begun)
        while begun[:whole].decode(errors="ignore").encode() != begun[:whole]:
            whole -= 1
        pieces.append(begun[shown:whole].decode())
        shown = whole
    return [*pieces, ""]
