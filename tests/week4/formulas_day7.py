"""The formulas of week 4, day 7, in NumPy float64."""

import math
from collections.abc import Callable

import numpy as np

from tiny_llm_course.testkit.rounding import Array64, Round, exact, in_float32


def linear64(dims: int, base: float, factor: float, *, r: Round = exact) -> Array64:
    """Return every pair's frequency, divided by one factor."""
    return r(r(float(base) ** (-2 * np.arange(dims // 2) / dims)) / factor)


def ntk64(
    dims: int,
    base: float,
    factor: float,
    length: int | None = None,
    original_length: int | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """Return the frequencies of a larger base; with a length, of one that grows with it."""
    s = factor
    if length is not None:
        assert original_length is not None
        s = max(1.0, factor * length / original_length - (factor - 1))
    # the frequency of pair i is multiplied by s ** (-2i / (D - 2)): unchanged for the first, divided by s for the last
    return r(linear64(dims, base, 1, r=r) * float(s) ** (-2 * np.arange(dims // 2) / (dims - 2)))


def yarn64(
    dims: int,
    base: float,
    factor: float,
    original_length: int,
    beta_fast: float = 32,
    beta_slow: float = 1,
    truncate: bool = True,
    *,
    r: Round = exact,
) -> Array64:
    """Return YaRN's frequencies, pair by pair."""

    def pair_with(turns: float) -> float:
        """Return where original_length * base ** (-2i / dims) = 2 pi turns."""
        return dims * math.log(original_length / turns / math.tau) / math.log(base) / 2

    low, high = pair_with(beta_fast), pair_with(beta_slow)
    low, high = (math.floor(low), math.ceil(high)) if truncate else (low, high)
    low, high = max(low, 0), min(high, dims - 1)
    paces = linear64(dims, base, 1, r=r)
    for i in range(dims // 2):
        share = min(1.0, max(0.0, (i - low) / max(high - low, 0.001)))
        paces[i] = r(paces[i] * (1 - share) + paces[i] / factor * share)
    return paces


def attention_factor64(factor: float) -> float:
    """Return the factor by which YaRN lengthens queries and keys."""
    return 0.1 * math.log(factor) + 1


def scaled_rope64(
    x: Array64,
    frequencies: Array64 | Callable[[int], Array64],
    attention_factor: float = 1.0,
    traditional: bool = False,
    offset: int | slice | list[slice] | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """Multiply each pair of features, as a complex number, by the attention factor times exp(j p frequency)."""
    batch, length, _, dims = x.shape
    first = offset if isinstance(offset, int) else 0
    one = slice(first, first + length) if offset is None or isinstance(offset, int) else offset
    rows = one if isinstance(one, list) else [one] * batch
    paces = [frequencies(row.stop) if callable(frequencies) else frequencies for row in rows]
    even, odd = (slice(0, None, 2), slice(1, None, 2)) if traditional else (slice(dims // 2), slice(dims // 2, None))
    angles = [np.outer(np.arange(row.start, row.stop), pace) for row, pace in zip(rows, paces, strict=True)]
    turns = attention_factor * np.exp(1j * in_float32(r)(np.stack(angles)))
    turned = (x[..., even] + 1j * x[..., odd]) * turns[:, :, None, :]
    y = np.empty_like(x)
    y[..., even], y[..., odd] = turned.real, turned.imag
    return r(y)
