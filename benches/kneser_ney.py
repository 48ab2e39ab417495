"""An n-gram model with interpolated Kneser-Ney smoothing: the quality that counting alone reaches.

Kneser and Ney 1995, "Improved backing-off for M-gram language modeling"; the discount of each order is that of Ney,
Essen and Kneser 1994. The arrays below hold one number for each distinct n-gram: its tokens as the digits of an integer
to the base V.
"""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class KneserNey:
    """P(token | the `order - 1` tokens before it)."""

    def __init__(self, texts: list[Ints], vocab_size: int, order: int = 5) -> None:
        """Count the n-grams of texts; each begins with a mark that is given, and ends with one to be predicted."""
        if vocab_size**order >= 2**63:
            raise ValueError(f"{order}-grams of {vocab_size} tokens do not fit in 64 bits")
        self.vocab_size, self.order = vocab_size, order
        grams, counts = np.unique(np.concatenate([self._grams(text, order) for text in texts]), return_counts=True)
        self.levels: list[_Level] = []
        for n in range(order, 0, -1):
            self.levels.insert(0, _Level(grams, counts, vocab_size))
            # One order lower, an n-gram counts once for every token that it was seen to follow.
            grams, counts = np.unique(grams % vocab_size ** (n - 1), return_counts=True)

    def probabilities(self, text: Ints) -> NDArray[np.float64]:
        """Of each token after the first, given those before it."""
        grams = self._grams(text, self.order)
        result = np.full(len(grams), 1 / self.vocab_size)
        for n, level in enumerate(self.levels, start=1):
            result = level.refine(result, grams % self.vocab_size**n)
        return result

    def _grams(self, text: Ints, order: int) -> Ints:
        padded = np.concatenate([np.full(order - 2, text[0]), text]).astype(np.int64)
        grams = np.zeros(len(padded) - order + 1, np.int64)
        for i in range(order):
            grams = grams * self.vocab_size + padded[i : i + len(grams)]
        return grams


class _Level:
    """The n-grams of one length."""

    def __init__(self, grams: Ints, counts: Ints, vocab_size: int) -> None:
        self.grams, self.counts, self.vocab_size = grams, counts, vocab_size
        once, twice = (int((counts == n).sum()) for n in (1, 2))
        self.discount = once / (once + 2 * twice) if once else 0.0
        self.contexts, first = np.unique(grams // vocab_size, return_index=True)  # grams are sorted
        self.totals = np.add.reduceat(counts, first)  # how often a context was seen
        self.kinds = np.diff(np.append(first, len(grams)))  # how many tokens followed it

    def refine(self, shorter: NDArray[np.float64], grams: Ints) -> NDArray[np.float64]:
        """Probabilities by this length, from those by shorter contexts; a context that was never seen adds nothing."""
        count = _find(self.grams, self.counts, grams)
        total = _find(self.contexts, self.totals, grams // self.vocab_size)
        kinds = _find(self.contexts, self.kinds, grams // self.vocab_size)
        seen = np.maximum(total, 1)
        mixed = (np.maximum(count - self.discount, 0) + self.discount * kinds * shorter) / seen
        return np.where(total > 0, mixed, shorter)


def _find(keys: Ints, values: Ints, wanted: Ints) -> Ints:
    """The value of each wanted key, or 0."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    found: Ints = np.where(keys[place] == wanted, values[place], 0)
    return found
