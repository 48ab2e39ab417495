"""A text that is read in several calls, and a model with caches whose answers can be foretold."""

import itertools
from collections.abc import Callable

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import strategies as st

from tiny_llm_course.testkit.cases import type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind


class Parts(tuple[int, ...]):
    """How many tokens each call gets. Below zero: so many others are read, and then rewound."""

    def __str__(self) -> str:
        """How a failing case says it: `2 + 1 + (3 rewound) + 2`."""
        return " + ".join(f"({-size} rewound)" if size < 0 else str(size) for size in self)


def parts_of(seed: int, length: int) -> Parts:
    """So many tokens in parts: all at once, one by one, or as drawn, some of them with others that are rewound."""
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
    """What `read` gives for tokens, N x L.., part by part, joined along the length.

    What is rewound are the tokens from the last one backwards.
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
    """A cache that keeps the tokens themselves."""

    def __init__(self) -> None:
        self.tokens: list[int] = []

    @property
    def offset(self) -> int:
        """How many there are."""
        return len(self.tokens)

    def rewind(self, count: int) -> None:
        """Forget the last ones."""
        del self.tokens[len(self.tokens) - count :]


class Reader:
    """A model of two layers: `follow` gives the next token for all that the caches hold. Notes what it was given."""

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

    def new_caches(self) -> list[Notes]:
        """One for each layer."""
        return [Notes(), Notes()]

    def logits(self, text: list[int]) -> mx.array:
        """After the last token of a text, V, signed, the largest at the token that follows."""
        row = np.random.default_rng(len(text)).uniform(-2, 2, self.vocab)
        row[self.follow(text)] = 3.0
        return mx.array(row.astype(np.float32)).astype(self.dtype)

    def __call__(self, tokens: mx.array, caches: list[Notes] | None = None, all_positions: bool = False) -> mx.array:
        """The logits after the last token, 1 x 1 x V, or after each one."""
        if not isinstance(tokens, mx.array) or not mx.issubdtype(tokens.dtype, mx.integer):
            what = tokens.dtype if isinstance(tokens, mx.array) else type_words(tokens)
            self._refuse(Kind.TYPE, f"the model was given {what}, expected an mx.array of integers")
        if tokens.ndim != 2 or len(tokens) != 1 or not tokens.size:
            shape = " x ".join(map(str, tokens.shape))
            self._refuse(Kind.SHAPE, f"the model was given tokens of shape {shape or '()'}, expected 1 x L")
        caches = self.new_caches() if caches is None else caches
        if not isinstance(caches, list) or len(caches) != 2 or not all(isinstance(each, Notes) for each in caches):
            self._refuse(Kind.TYPE, "the model was given other caches than those that its new_caches() makes")
        new: list[int] = tokens[0].tolist()  # type: ignore[assignment]
        self.seen.append(new)
        before = list(caches[0].tokens)
        for cache in caches:
            cache.tokens += new
        if self.longest and caches[0].offset > self.longest:
            self._refuse(Kind.VALUES, f"the model was given {caches[0].offset} tokens, it takes {self.longest}")
        texts = [[*before, *new[: i + 1]] for i in range(len(new))]
        return mx.stack([self.logits(text) for text in (texts if all_positions else texts[-1:])])[None]

    def _refuse(self, kind: Kind, headline: str) -> None:
        raise CheckFailed(Finding(kind, headline, (), self.case))


by_parts = pytest.mark.parametrize("parts", [(5,), (3, 2), (1, 1, 1, 1, 1), (2, -3, 3)], ids=str)
# How a property cuts a text: where, and after which part how many other tokens are read and rewound.
cuts = st.lists(st.integers(1, 3), min_size=1, max_size=4)
junk = st.tuples(st.integers(0, 4), st.integers(0, 3))


def with_junk(parts, junk):
    after, count = junk
    return Parts((*parts[:after], *([-count] if count else []), *parts[after:]))
