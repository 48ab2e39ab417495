"""Shared by the probes of text tasks: outcomes as numbers, a small tokenizer, and a scripted model."""

import importlib
import itertools
from pathlib import Path

import mlx.core as mx

FOLDER = Path(__file__).parent
TEXT = (FOLDER / "tokenizer_text.txt").read_text(encoding="utf-8")


def numbers(values):
    return mx.array(list(values), dtype=mx.int32)


def pieces(texts):
    """Return the bytes of texts, each followed by 256."""
    return numbers(itertools.chain.from_iterable([*text.encode(), 256] for text in texts))


PAIRS = "t+h th+a \u0120+i \u0120i+s d+o do+g \u0120+dog \u00c3+\u00a9 s+\u0120 \u00c2+\u0142 \u0120+\u00c3"


def small(program, merges=PAIRS, **settings):
    """Return a tokenizer of the 256 bytes, some merges and three special tokens.

    It comes from the program's package, so that a learner's encode calls the learner's merge_pairs.
    """
    package = program.__module__.partition(".")[0]
    pairs = [tuple(pair.split("+")) for pair in merges.split()]
    letters = [chr(n) for n in range(33, 324) if n not in range(127, 161) and n != 173]
    vocab = {token: i for i, token in enumerate(sorted([*letters, *map("".join, pairs)]))}
    defaults = {"special_tokens": {"<|e": 300, "<|end|>": 301, "dog<|end|>": 302}, "normalization": "NFC"}
    return importlib.import_module(f"{package}.tokenizer").ByteLevelBPE(vocab, pairs, **defaults | settings)


def learned(program):
    """Return the tokenizer learned from TEXT, from the program's package."""
    package = program.__module__.partition(".")[0]
    return importlib.import_module(f"{package}.tokenizer").ByteLevelBPE.from_file(FOLDER / "tokenizer.json")


class Model:
    """A model whose output depends on all tokens so far; records their count."""

    def __init__(self, follow, vocab=11, dtype=mx.float32):
        self.follow, self.vocab, self.dtype, self.lengths = follow, vocab, dtype, []

    def __call__(self, tokens):
        ids = tokens[0].tolist()
        self.lengths.append(len(ids))
        best = mx.array([self.follow(ids[: i + 1]) for i in range(len(ids))])
        fixed = mx.sin(mx.arange(self.vocab) * 2.0) + mx.arange(len(ids))[:, None]
        return mx.where(mx.arange(self.vocab) == best[:, None], 20.0, fixed)[None].astype(self.dtype)


def add_up(ids):
    return (3 * sum(ids) + len(ids)) % 11


def count_up(ids):
    return (ids[-1] + 1) % 11


def taken(iterator, most=40):
    """Return the first item of an iterator; raise TypeError if it is not one."""
    if not hasattr(iterator, "__next__"):
        raise TypeError("not an iterator")
    return itertools.islice(iterator, most)


def growth(iterator, calls):
    """Return the number of model calls after each of four tokens."""
    found = []
    for _ in range(4):
        next(iterator, None)
        found.append(len(calls))
    return numbers(found)


def sampled(start):
    """Return the inputs of a sampler that takes the least likely token, and the resulting tokens."""
    seen = []

    def least(logits, tokens):
        seen.extend([logits, *map(numbers, tokens)])
        return mx.argmin(logits, axis=-1)

    tokens = numbers(start(least))
    return *seen, tokens


def refused_when(start, *cases):
    """Return when each case raises: 1 at the call, 2 at the first token; 3 for another error, 20 and more for none."""

    def when(case):
        try:
            iterator = start(*case)
        except ValueError:
            return 1
        try:
            return 20 + len(list(itertools.islice(iterator, 40)))
        except Exception as error:
            return 2 if isinstance(error, ValueError) else 3

    return numbers(map(when, cases))
