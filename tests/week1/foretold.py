"""A scripted model, and helpers for iterators."""

import itertools

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.cases import type_words
from tiny_llm_course.testkit.errors import Kind, fail


class Model:
    """A scripted model: `follow` returns the next token for all tokens so far. Records its inputs."""

    def __init__(self, follow, case, vocab=11, dtype=mx.float32, longest=None):
        self.follow, self.case, self.vocab, self.dtype, self.longest = follow, case, vocab, dtype, longest
        self.seen = []

    def logits(self, tokens):
        """Return signed logits, L x V, largest at the token that follows each position."""
        rows = np.random.default_rng(len(tokens)).uniform(-2, 2, (len(tokens), self.vocab))
        for i in range(len(tokens)):
            rows[i, self.follow(tokens[: i + 1])] = 3.0
        return mx.array(rows.astype(np.float32)).astype(self.dtype)

    def __call__(self, tokens):
        if not isinstance(tokens, mx.array) or not mx.issubdtype(tokens.dtype, mx.integer):
            what = tokens.dtype if isinstance(tokens, mx.array) else type_words(tokens)
            fail(Kind.TYPE, f"the model was given {what}, expected an mx.array of integers", self.case)
        if tokens.ndim != 2 or len(tokens) != 1 or not tokens.size:
            shape = " x ".join(map(str, tokens.shape))
            fail(Kind.SHAPE, f"the model was given tokens of shape {shape or '()'}, expected 1 x L", self.case)
        self.seen.append(tokens[0].tolist())
        if self.longest and tokens.size > self.longest:
            fail(Kind.VALUES, f"the model was given {tokens.size} tokens, its limit is {self.longest}", self.case)
        return self.logits(self.seen[-1])[None]


def drawn(iterator, case, most=50):
    """Return up to `most` items of an iterator, so that an endless one fails instead of hanging the test."""
    if not hasattr(iterator, "__next__"):
        fail(Kind.TYPE, f"got {type_words(iterator)}, expected an iterator", case)
    return list(itertools.islice(iterator, most))


def in_turn(first, second, case):
    """Return the items of two interleaved iterators."""
    return [
        [item for item in items if item is not None]
        for items in zip(*drawn(itertools.zip_longest(first, second), case), strict=True)
    ]
