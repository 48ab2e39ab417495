"""How far an answer may be from the formula: the one place where tolerances are made.

A formula of the tests is written once, in NumPy float64, with `r(...)` around every step. With `r = exact` it gives
the expected values. With `r = rounding(dtype)` every step is rounded to the dtype, as an honest program's steps are,
and the distance between the two is the error that the dtype itself makes on these very inputs.
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


def exact(x: Array64) -> Array64:
    """Round nothing."""
    return x


@cache
def rounding(dtype: mx.Dtype) -> Round:
    """A function that rounds float64 numbers to `dtype` and gives them back as float64."""

    def r(x: Array64) -> Array64:
        return to_float64(mx.array(x.astype(np.float32)).astype(dtype))

    return r


def to_float64(x: mx.array) -> Array64:
    """The numbers of an MLX array, exactly, as NumPy float64."""
    return np.array(x.astype(mx.float32), dtype=np.float64)  # NumPy has no bfloat16; float32 holds it exactly


def tolerance(expected: Array64, rounded: Array64, dtype: mx.Dtype) -> float:
    """The largest allowed distance: FACTOR times the dtype's own error on these inputs.

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
    largest = float(np.abs(np.where(np.isfinite(y), y, 0.0)).max(initial=0.0))
    return bool(np.allclose(x, y, rtol=0.0, atol=closeness * largest, equal_nan=True))
