"""How far an answer may be from the formula: the one place where tolerances are made.

A formula of the tests is written once, in NumPy float64, with `r(...)` around every step. With `r = exact` it gives
the expected values. With `r = rounding(dtype)` every step is rounded to the dtype, as an honest program's steps are.
With `r = Shaking(...)` every input and every step is moved a little at random, and where the answer moves much, the
problem itself is delicate: near scores of 1,000 no program in float32 can know exp(x - logsumexp(x)) to six digits.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np

Array64 = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Round = Callable[[Array64], Array64]

# Two correct programs take their steps in another order, and a sum of rounded numbers depends on the order.
FACTOR = 4.0

# The spacing of the numbers around 1. For float32 eight times coarser than it is (2**-23): GPUs and fast CPU code
# compute exp() and long sums to a few units in the last place.
EPSILON = {mx.float32: 2.0**-20, mx.float16: 2.0**-10, mx.bfloat16: 2.0**-7}

# Below this, float32 results are not looked at: on the way to them, numbers may have become too small for float32.
FLOOR = 2.0**-100

# How often a float32 formula is shaken, so that none of its elements keeps still by luck; twice is enough where there
# are many, of which a row's largest movement counts, and once where the largest of all does.
SHAKES, MANY, FEW = 4, 256, 16


def exact(x: Array64) -> Array64:
    """Round nothing."""
    return x


@cache
def rounding(dtype: mx.Dtype) -> Round:
    """A function that rounds float64 numbers to `dtype` and gives them back as float64."""

    def r(x: Array64) -> Array64:
        return to_float64(mx.array(x.astype(np.float32)).astype(dtype))

    return r


class Noting:
    """Rounds to a dtype, and notes how often, and whether a formula has steps that are float32 in every dtype."""

    def __init__(self, dtype: mx.Dtype) -> None:
        self._round, self.rounded, self.has_float32 = rounding(dtype), 0, False

    def __call__(self, x: Array64) -> Array64:
        """The numbers, rounded."""
        self.rounded += 1
        return self._round(x)


class Shaking:
    """Moves every number up or down, by half of a share of it up to all of that share. Seeded: always the same."""

    def __init__(self, share: float, seed: int) -> None:
        self.share = share
        self._generator = np.random.default_rng(seed)

    def __call__(self, x: Array64) -> Array64:
        """The numbers, moved."""
        move = self._generator.random(np.shape(x), np.float32)
        move -= 0.5
        move += np.copysign(np.float32(0.5), move)
        shaken: Array64 = x * (1 + self.share * move.astype(np.float64))
        return shaken


def in_float32(r: Round) -> Round:
    """For steps that are float32 in every dtype: they count only where float32 is judged."""
    if isinstance(r, Noting):
        r.has_float32 = True
    return r if isinstance(r, Shaking) and r.share == EPSILON[mx.float32] else exact


def to_float64(x: mx.array) -> Array64:
    """The numbers of an MLX array, exactly, as NumPy float64."""
    return np.array(x.astype(mx.float32), dtype=np.float64)  # NumPy has no bfloat16; float32 holds it exactly


def allowed_distance(
    at: Callable[[Round], Array64], expected: Array64, dtype: mx.Dtype, closely: bool = True
) -> float | Array64:
    """The largest allowed distance, `at(r)` being the formula.

    In float32 each element has its own: FACTOR times how far it moves when the formula is shaken, and at least one
    spacing of its own value, so that small results cannot hide behind large ones. In the narrow dtypes, where a sum's
    steps cannot be foretold, all have one: `tolerance`, or what the inputs' own rounding makes of them; but where all
    steps are float32 and the result alone is rounded, each has one spacing more than in float32. In float32 all have
    one as well if it is not to be looked at `closely`.
    """
    if dtype != mx.float32:
        noting = Noting(dtype)
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


def _movement(at: Callable[[Round], Array64], expected: Array64, share: float, times: int) -> Array64:
    """How far each element moves at most; one that becomes infinite, or another choice, does not count."""
    with np.errstate(all="ignore"):
        moved = [np.abs(at(Shaking(share, seed)) - expected) for seed in range(times)]
    largest: Array64 = np.max([np.where(np.isfinite(m), m, 0.0) for m in moved], axis=0)
    return largest


def tolerance(expected: Array64, rounded: Array64, dtype: mx.Dtype) -> float:
    """FACTOR times the dtype's own error on these inputs.

    That error counts as at least one spacing of the largest value: on small inputs it can be zero by luck.
    """
    finite = np.isfinite(expected) & np.isfinite(rounded)
    if not finite.any():
        return 0.0
    error = float(np.abs(expected[finite] - rounded[finite]).max())
    return FACTOR * max(error, EPSILON[dtype] * float(np.abs(expected[finite]).max()))


def close(a: Any, b: Any, closeness: float) -> bool:
    """Whether both are arrays of one shape and dtype whose numbers are apart by at most this share of b's largest."""
    if not (isinstance(a, mx.array) and isinstance(b, mx.array) and a.shape == b.shape and a.dtype == b.dtype):
        return False
    x, y = to_float64(a), to_float64(b)
    same = (x == y) | ((x != x) & (y != y))  # infinities and NaNs must be where they are in the other
    if same.all():
        return True
    largest = float(np.abs(y[np.isfinite(y)]).max(initial=0.0))
    with np.errstate(invalid="ignore"):
        return bool((same | (np.abs(x - y) <= closeness * largest)).all())
