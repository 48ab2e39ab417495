"""The elementwise and normalization kernels of this folder, as functions of arrays."""

import math

import mlx.core as mx

from .device import Launch, launch

SIMDGROUP = 32  # threads
MOST = 8  # SIMD-groups per threadgroup
EACH = 4  # elements per thread, about
WHOLE = SIMDGROUP * MOST, 1, 1  # the largest threadgroup


def add_scaled(x: mx.array, y: mx.array, scale: float) -> mx.array:
    """Return x + scale * y, by the kernel `add_scaled.metal`.

    Args:
        x: any shape, in a float dtype.
        y: as x.

    Returns:
        An array of x's shape and dtype, computed in float32.

    Raises:
        ValueError: y's shape or dtype differs from x's.
    """
    if (x.shape, x.dtype) != (y.shape, y.dtype):
        raise ValueError(f"x is {x.shape} {x.dtype} and y is {y.shape} {y.dtype}, but they must be alike")
    inputs = {"x": x.reshape(-1), "y": y.reshape(-1), "scale": mx.array([scale], mx.float32)}
    work = Launch(inputs, {"out": ((x.size,), x.dtype)}, (_whole(x.size / EACH), 1, 1), WHOLE, {"T": x.dtype})
    return launch("add_scaled", work)[0].reshape(x.shape)


def rms_norm(x: mx.array, weight: mx.array, eps: float) -> mx.array:
    """Divide each vector along the last axis by its root mean square and multiply by weight, by `rms_norm.metal`.

    Args:
        x: N.. x E, in a float dtype.
        weight: E, in x's dtype.
        eps: added to the mean square.

    Returns:
        An array of x's shape and dtype; the mean is computed in float32.

    Raises:
        ValueError: weight's dtype is not x's, or its size is not that of x's last axis.

    Source: `mx.fast.rms_norm`.
    """
    size = x.shape[-1]
    if (weight.shape, weight.dtype) != ((size,), x.dtype):
        raise ValueError(f"weight is {weight.shape} {weight.dtype}, but ({size},) {x.dtype} is needed")
    rows, threads = x.size // max(size, 1), SIMDGROUP * min(max(-(-size // (EACH * SIMDGROUP)), 1), MOST)
    inputs = {"x": x.reshape(-1), "weight": weight, "eps": mx.array([eps], mx.float32)}
    outputs = {"out": ((x.size,), x.dtype)}
    work = Launch(inputs, outputs, (threads * rows, 1, 1), (threads, 1, 1), {"T": x.dtype})
    return launch("rms_norm", work)[0].reshape(x.shape)


def rope(x: mx.array, offset: int = 0, base: float = 10000) -> mx.array:
    """Rotate each pair of features i and i + D/2 by its token's angle, by the kernel `rope.metal`.

    There is no table of angles: each thread computes its own.

    Args:
        x: N x L x H x D, in a float dtype, D even.
        offset: the position of the first of the L tokens.
        base: theta.

    Returns:
        An array of x's shape and dtype; the rotation is computed in float32.

    Raises:
        ValueError: x does not have four dimensions, or D is odd.

    Source: `mx.fast.rope` (which takes the length next to last: N x H x L x D).
    """
    if x.ndim != 4 or x.shape[-1] % 2:
        raise ValueError(f"x has shape {x.shape}, but N x L x H x D with an even D is needed")
    inputs = {"x": x, "offset": mx.array([offset], mx.int32), "base": mx.array([base], mx.float32)}
    work = Launch(inputs, {"out": (x.shape, x.dtype)}, (_whole(x.size / 2), 1, 1), WHOLE, {"T": x.dtype})
    return launch("rope", work)[0]


def swiglu(x: mx.array) -> mx.array:
    """Return silu(gate) * up, where one array holds both, by the kernel `swiglu.metal`.

    Args:
        x: N.. x 2I, in a float dtype: the first I of each vector are the gate, the others are up.

    Returns:
        N.. x I, in x's dtype, computed in float32 and rounded once.

    Raises:
        ValueError: the last axis of x is odd.

    Source: Shazeer 2020; `mlx.nn.silu(gate) * up`.
    """
    *leading, both = x.shape
    if both % 2:
        raise ValueError(f"x has shape {x.shape}, but an even last axis is needed")
    rows, size = math.prod(leading), both // 2
    outputs = {"out": ((rows, size), x.dtype)}
    work = Launch({"x": x.reshape(rows, both)}, outputs, (_whole(size), rows, 1), WHOLE, {"T": x.dtype})
    return launch("swiglu", work)[0].reshape(*leading, size)


def _whole(threads: float) -> int:
    """Round a number of threads up to whole threadgroups."""
    return math.ceil(threads / WHOLE[0]) * WHOLE[0]
