"""Sequences split over several calls, and a scripted model with caches."""

import itertools
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import strategies as st

from tiny_llm_course.testkit.cases import type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind


class Parts(tuple[int, ...]):
    """The number of tokens of each call. A negative one adds that many other tokens, and then rewinds them."""

    def __str__(self) -> str:
        """Return the split as a failing case shows it: `2 + 1 + (3 rewound) + 2`."""
        return " + ".join(f"({-size} rewound)" if size < 0 else str(size) for size in self)


def parts_of(seed: int, length: int) -> Parts:
    """Return splits of `length` tokens: all at once, one at a time, or random, some with rewound tokens."""
    generator = np.random.default_rng(seed)
    match seed % 4:
        case 0:
            return Parts((length,))
        case 1 if length <= 20:
            return Parts((1,) * length)
    cuts = sorted({0, length, *map(int, generator.integers(0, length + 1, 3))})
    sizes = [b - a for a, b in itertools.pairwise(cuts)]
    if seed % 4 == 3:
        sizes.insert(int(generator.integers(0, len(sizes))), -int(generator.integers(1, min(length, 5) + 1)))
    return Parts(sizes)


def in_parts(
    read: Callable[[mx.array], mx.array], rewind: Callable[[int], None], tokens: mx.array, parts: Parts
) -> mx.array:
    """Return the results of `read` for tokens, N x L.., part by part, joined along the length.

    The rewound tokens are the sequence in reverse.
    """
    found, at = [], 0
    for size in parts:
        if size < 0:
            mx.eval(read(tokens[:, ::-1][:, :-size]))
            rewind(-size)
            continue
        found.append(read(tokens[:, at : at + size]))
        mx.eval(found[-1])
        at += size
    return mx.concatenate(found, axis=1)


class Notes:
    """A cache that stores token ids."""

    def __init__(self) -> None:
        self.tokens: list[int] = []

    @property
    def offset(self) -> int:
        """The number of tokens."""
        return len(self.tokens)

    def rewind(self, count: int) -> None:
        """Drop the last `count` tokens."""
        del self.tokens[len(self.tokens) - count :]


class Reader:
    """A scripted model of two layers: `follow` returns the next token for all cached ones. Records its inputs."""

    def __init__(
        self,
        follow: Callable[[list[int]], int],
        case: str = "",
        vocab: int = 11,
        dtype: mx.Dtype = mx.float32,
        longest: int | None = None,
    ) -> None:
        self.follow, self.case, self.vocab, self.dtype, self.longest = follow, case, vocab, dtype, longest
        self.seen: list[list[int]] = []
        self.unneeded = 0  # logits of positions before the last

    def new_caches(self) -> list[Notes]:
        """One for each layer."""
        return [Notes(), Notes()]

    def logits(self, text: list[int]) -> mx.array:
        """Return signed logits, V, after the last token of a sequence, largest at the token that follows."""
        row = np.random.default_rng(len(text)).uniform(-2, 2, self.vocab)
        row[self.follow(text)] = 3.0
        return mx.array(row.astype(np.float32)).astype(self.dtype)

    def __call__(self, tokens: mx.array, caches: list[Notes] | None = None, all_positions: bool = False) -> mx.array:
        """Return the logits of the last position, 1 x 1 x V, or of all positions."""
        if not isinstance(tokens, mx.array) or not mx.issubdtype(tokens.dtype, mx.integer):
            what = tokens.dtype if isinstance(tokens, mx.array) else type_words(tokens)
            self._refuse(Kind.TYPE, f"the model was given {what}, expected an mx.array of integers")
        if tokens.ndim != 2 or len(tokens) != 1 or not tokens.size:
            shape = " x ".join(map(str, tokens.shape))
            self._refuse(Kind.SHAPE, f"the model was given tokens of shape {shape or '()'}, expected 1 x L")
        caches = self.new_caches() if caches is None else caches
        if not isinstance(caches, list) or len(caches) != 2 or not all(isinstance(each, Notes) for each in caches):
            self._refuse(Kind.TYPE, "the model was given caches that its new_caches() did not create")
        new: list[int] = tokens[0].tolist()  # type: ignore[assignment]
        self.seen.append(new)
        self.unneeded += (len(new) - 1) * all_positions
        before = list(caches[0].tokens)
        for cache in caches:
            cache.tokens += new
        if self.longest and caches[0].offset > self.longest:
            self._refuse(Kind.VALUES, f"the model was given {caches[0].offset} tokens, its limit is {self.longest}")
        texts = [[*before, *new[: i + 1]] for i in range(len(new))]
        return mx.stack([self.logits(text) for text in (texts if all_positions else texts[-1:])])[None]

    def _refuse(self, kind: Kind, headline: str) -> None:
        raise CheckFailed(Finding(kind, headline, (), self.case))


by_parts = pytest.mark.parametrize("parts", [(5,), (3, 2), (1, 1, 1, 1, 1), (2, -3, 3)], ids=str)
# How a property splits a sequence: where, and after which part how many other tokens are added and rewound.
cuts = st.lists(st.integers(1, 3), min_size=1, max_size=4)
junk = st.tuples(st.integers(0, 4), st.integers(0, 3))


def with_junk(parts, junk):
    after, count = junk
    return Parts((*parts[:after], *([-count] if count else []), *parts[after:]))
