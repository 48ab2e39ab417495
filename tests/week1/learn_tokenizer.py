"""Train the small tokenizer of day 6's tests on `tokenizer_text.txt`: `python tests/week1/learn_tokenizer.py`.

The most frequent adjacent pair becomes a token, repeatedly. The result is committed as `tokenizer.json`.
"""

import itertools
import json
from collections import Counter
from pathlib import Path

import regex

from tiny_llm_course.testkit.variants import load_solution

load_solution()
from tiny_llm_solution.tokenizer import byte_alphabet, merge_pairs  # noqa: E402

FOLDER = Path(__file__).parent
MERGES = 400
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# Qwen's word pattern: contractions in both cases, letters with one other character before them, single digits.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def learn() -> dict[str, object]:
    """Return the contents of the tokenizer.json."""
    alphabet = byte_alphabet()
    text = (FOLDER / "tokenizer_text.txt").read_text(encoding="utf-8")
    words = [[alphabet[byte] for byte in word.encode()] for word in regex.findall(PATTERN, text)]
    vocab = {token: i for i, token in enumerate(sorted(alphabet.values()))}
    merges: list[tuple[str, str]] = []
    while len(merges) < MERGES:
        counts = Counter(pair for word in words for pair in itertools.pairwise(word))
        pair = max((p for p in counts if "".join(p) not in vocab), key=lambda p: (counts[p], p))
        merges.append(pair)
        vocab["".join(pair)] = len(vocab)
        words = [merge_pairs(word, {pair: 0}) for word in words]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "added_tokens": [{"id": len(vocab) + i, "content": token, **plain} for i, token in enumerate(SPECIAL)],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, step]},
        "decoder": step,
        "model": {"type": "BPE", "vocab": vocab, "merges": [" ".join(pair) for pair in merges]},
    }


if __name__ == "__main__":
    (FOLDER / "tokenizer.json").write_text(json.dumps(learn()) + "\n", encoding="utf-8")
