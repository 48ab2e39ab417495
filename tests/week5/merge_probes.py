"""Outcomes of day 1's programs as numbers: word counts, merges, and the parts of a saved file."""

import contextlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import mlx.core as mx
from tests.week1.text_probes import numbers

from tiny_llm_course.testkit.outcomes import refusal


def counted(counts):
    """Return the bytes of each word, 256, and its count."""
    flat = []
    for word, count in counts.items():
        flat += [*word.encode(), 256, count]
    return numbers(flat)


def merged(merges):
    """Return the bytes of each pair, 256 after its left token and 257 after its right one."""
    flat = []
    for pair in merges:
        left, right = pair  # a string of another length raises
        flat += [*left.encode(), 256, *right.encode(), 257]
    return numbers(flat)


def learned(program, *cases):
    """Return the merges of each case: word counts as "dog 3 dig 2", and how many merges."""
    found = []
    for words, num in cases:
        parts = words.split()
        counts = dict(zip(parts[::2], map(int, parts[1::2]), strict=True))
        found.append(merged(program(counts, num)))
    return tuple(found)


def refused(program):
    """Return whether a negative number and a foreign character are refused."""
    calls = (lambda: program({"dog": 1}, -1), lambda: program({"a dog": 1}, 2), lambda: program({"dog": 1}, 1))
    return mx.array([refusal(call) for call in calls])


def saved(program, merges, special=(), **settings):
    """Return the parts of the file that a program writes, or what is left on the disk if it raises a ValueError."""
    pairs = [tuple(pair.split("+")) for pair in merges.split()]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tokenizer.json"
        with contextlib.suppress(ValueError):
            program(path, pairs, list(special), **settings)
        text = path.read_text(encoding="utf-8") if path.exists() else "null"
    data = json.loads(text) if text else {}
    return _parts(data) if data else numbers([-1 if data is None else -2])


def not_refused(program, merges, special=()):
    """Return whether a program raises no ValueError, and whether it leaves a file.

    What the file of wrong arguments would contain is not specified.
    """
    pairs = [tuple(pair.split("+")) for pair in merges.split()]
    with TemporaryDirectory() as folder:
        path, passed = Path(folder) / "tokenizer.json", False
        with contextlib.suppress(ValueError):
            program(path, pairs, list(special))
            passed = True
        return numbers([passed, path.exists()])


def _parts(data):
    vocab, found = data["model"]["vocab"], []
    for token in sorted(vocab):
        found += [*token.encode(), 256, vocab[token]]
    for pair in data["model"]["merges"]:
        found += [257, *(pair if isinstance(pair, str) else " ".join(pair)).encode()]
    for token in data["added_tokens"]:
        found += [258, token["id"], *token["content"].encode(), token["normalized"], token["special"]]
    steps = data["pre_tokenizer"]["pretokenizers"]
    found += [259, *json.dumps(data["normalizer"]).encode(), *steps[0]["pattern"]["Regex"].encode()]
    return numbers(found)
