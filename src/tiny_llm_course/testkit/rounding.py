"""How far an answer may be from the formula: the one place where tolerances are made.

A formula is written once, in float64 NumPy, with `r(...)` around every step: `exact` gives the expected values,
`rounding(dtype)` rounds as a straightforward program does, and `Perturbing` moves every input and step a little: where
the answer then moves much, the problem is ill-conditioned.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np

Array64 = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Round = Callable[[Array64], Array64]

# Two correct programs may order their steps differently, and a sum of rounded numbers depends on the order.
FACTOR = 4.0

# The spacing of the numbers around 1; for float32 eight times its real one (2**-23), as GPUs and fast CPU code compute
# exp() and long sums to a few units in the last place.
EPSILON = {mx.float32: 2.0**-20, mx.float16: 2.0**-10, mx.bfloat16: 2.0**-7}

LARGEST = 1 << 25  # elements of arrays that are compared up to rounding; each copy in float64 takes 256 MiB

# Smaller float32 results are not compared: intermediate values may have underflowed.
FLOOR = 2.0**-100

# How often a float32 formula is perturbed, so that no element stays in place by luck; twice is enough for more than
# MANY elements, where a row's largest movement counts, and once for more than FEW, where the largest of all counts.
SHAKES, MANY, FEW = 4, 256, 16


def exact(x: Array64) -> Array64:
    """Return x unrounded."""
    return x


@cache
def rounding(dtype: mx.Dtype) -> Round:
    """Return a function that rounds float64 numbers to `dtype` and returns them as float64."""

    def r(x: Array64) -> Array64:
        return to_float64(mx.array(x.astype(np.float32)).astype(dtype))

    return r


class CountingRound:
    """Round to a dtype; count the calls, and note whether the formula has steps that are float32 in every dtype."""

    def __init__(self, dtype: mx.Dtype) -> None:
        self._round, self.rounded, self.has_float32 = rounding(dtype), 0, False

    def __call__(self, x: Array64) -> Array64:
        """Return x rounded."""
        self.rounded += 1
        return self._round(x)


class Perturbing:
    """Move every number up or down, by half to all of a share of it. Seeded: always the same."""

    def __init__(self, share: float, seed: int) -> None:
        self.share = share
        self._generator = np.random.default_rng(seed)

    def __call__(self, x: Array64) -> Array64:
        """Return x moved."""
        move = self._generator.random(np.shape(x), np.float32)
        move -= 0.5
        move += np.copysign(np.float32(0.5), move)
        shaken: Array64 = x * (1 + self.share * move.astype(np.float64))
        return shaken


def in_float32(r: Round) -> Round:
    """Return the rounding of steps that are float32 in every dtype: they count only where float32 is graded."""
    if isinstance(r, CountingRound):
        r.has_float32 = True
    return r if isinstance(r, Perturbing) and r.share == EPSILON[mx.float32] else exact


def to_float64(x: mx.array) -> Array64:
    """Return the numbers of an MLX array, exactly, as float64 NumPy."""
    if not mx.issubdtype(x.dtype, mx.integer):  # of which float32 holds 24 bits
        x = x.astype(mx.float32)  # NumPy has no bfloat16; float32 holds it exactly
    return np.array(x, dtype=np.float64)


Formula = Callable[[Round], Array64]


def allowed_distance(at: Formula, expected: Array64, dtype: mx.Dtype, closely: bool = True) -> float | Array64:
    """Return the largest allowed distance from the formula, `at(r)`.

    In float32 each element has its own: FACTOR times how far it moves when perturbed, and at least one spacing of its
    value, so that small results are not hidden by large ones; all share one if not `closely`. In the narrow dtypes all
    share one: `tolerance`, or the effect of rounding the inputs; but if only the result is rounded, each gets a spacing
    more than in float32.
    """
    if dtype != mx.float32:
        noting = CountingRound(dtype)
        rounded = at(noting)
        if noting.has_float32 and noting.rounded == 1:
            spacing = EPSILON[dtype] * np.maximum(np.abs(expected), float(mx.finfo(dtype).smallest_normal))
            return allowed_distance(at, expected, mx.float32, closely=False) + spacing
        moved = _movement(at, expected, EPSILON[dtype], SHAKES)
        return max(tolerance(expected, rounded, dtype), float(moved.max(initial=0.0)))
    size = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    if not closely:
        moved = _movement(at, expected, EPSILON[dtype], 1 if expected.size > FEW else SHAKES)
        return FACTOR * max(float(moved.max(initial=0.0)), EPSILON[dtype] * float(size.max(initial=0.0))) + FLOOR
    many = expected.size > MANY
    moved = _movement(at, expected, EPSILON[dtype], 2 if many else SHAKES)
    if many:
        moved = moved.max(axis=-1, keepdims=True)
    return FACTOR * np.maximum(moved, EPSILON[dtype] * size) + FLOOR


def _movement(at: Formula, expected: Array64, share: float, times: int) -> Array64:
    """Return how far each element moves at most, ignoring those that become infinite or NaN."""
    with np.errstate(all="ignore"):
        moved = [np.abs(at(Perturbing(share, seed)) - expected) for seed in range(times)]
    largest: Array64 = np.max([np.where(np.isfinite(m), m, 0.0) for m in moved], axis=0)
    return largest


def tolerance(expected: Array64, rounded: Array64, dtype: mx.Dtype) -> float:
    """Return FACTOR times the dtype's error on these inputs, at least one spacing of the largest value."""
    finite = np.isfinite(expected) & np.isfinite(rounded)
    if not finite.any():
        return 0.0
    error = float(np.abs(expected[finite] - rounded[finite]).max())
    return FACTOR * max(error, EPSILON[dtype] * float(np.abs(expected[finite]).max()))


def close(a: Any, b: Any, closeness: float) -> bool:
    """Return whether both are arrays of one shape and dtype that differ by at most this share of b's largest number.

    Those of more than LARGEST elements must be equal: in float64 they could end the process.
    """
    if not (isinstance(a, mx.array) and isinstance(b, mx.array) and a.shape == b.shape and a.dtype == b.dtype):
        return False
    if mx.array_equal(a, b, equal_nan=mx.issubdtype(a.dtype, mx.inexact)).item():
        return True
    if a.size > LARGEST:
        return False
    x, y = to_float64(a), to_float64(b)
    same = (x == y) | ((x != x) & (y != y))  # infinities and NaNs must be in the same places
    largest = float(np.abs(y[np.isfinite(y)]).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        return bool((same | (np.abs(x - y) <= closeness * largest)).all())
