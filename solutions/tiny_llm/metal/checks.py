"""Checks of a kernel: what it computes, where it reads and writes, and what that costs."""

from collections.abc import Callable

import mlx.core as mx

LINE = 64  # bytes of device memory that are moved together

Norm = Callable[[mx.array, mx.array, float], tuple[mx.array, dict[str, int]]]


def check_rms_norm(rms_norm: Norm) -> None:
    """Let a kernel pass if it does what `ops.rms_norm` and `rms_norm.metal` promise, and stop it if it does not.

    That is, for every size: the simulator finds no fault; the numbers are right, but for rounding, where a right kernel
    need not round as yours does; no bank conflicts; 9 barriers at most for each row; and, where rows are whole lines of
    memory, no more is moved than x twice, and the weight and the output once for each row.

    Args:
        rms_norm: called as rms_norm(x, weight, eps), it runs on the simulator, and gives the output, of x's shape and
            dtype, and what was counted: {"moved": bytes in lines of 64, "bank_conflicts": ..., "barriers": ...}, of all
            threadgroups together. Where the simulator finds a fault, it raises a RuntimeError.

    Raises:
        Exception: the kernel is wrong; any will do but NotImplementedError, and `assert` raises one. What is returned
            does not count.
    """
    eps = 0.5  # whoever leaves it out is seen
    for dtype, spread in ((mx.float32, 1.0), (mx.float16, 400.0)):  # the square of 400 is more than float16 holds
        # A part of a SIMD-group, one with more numbers than threads, and eight with ten numbers for each thread.
        for rows, size in ((3, 20), (2, 100), (2, 2560)):
            x, weight = _inputs(rows, size, spread, dtype)
            out, counts = rms_norm(x, weight, eps)
            _agrees(out, _formula(x, weight, eps), dtype)
            if size * x.itemsize % LINE == 0:
                _is_cheap(counts, x)


def _inputs(rows: int, size: int, spread: float, dtype: mx.Dtype) -> tuple[mx.array, mx.array]:
    """x, rows x size, and a weight of its own for each place."""
    x = spread * mx.random.normal((rows, size), key=mx.random.key(1))
    weight = mx.random.normal((size,), key=mx.random.key(2))
    return x.astype(dtype), weight.astype(dtype)


def _formula(x: mx.array, weight: mx.array, eps: float) -> mx.array:
    """The definition, on whole arrays and in float32."""
    x, weight = x.astype(mx.float32), weight.astype(mx.float32)
    return x / mx.sqrt(mx.mean(x * x, axis=-1, keepdims=True) + eps) * weight  # rows x E


def _agrees(out: mx.array, expected: mx.array, dtype: mx.Dtype) -> None:
    """The same shape, the dtype that is promised, and numbers as close as that dtype can be expected to come."""
    assert out.shape == expected.shape, f"{out.shape}, not {expected.shape}"
    assert out.dtype == dtype, f"{out.dtype}, not {dtype}"
    allowed = 16 * mx.finfo(dtype).eps * (1 + mx.abs(expected))  # a few roundings; a mistake is far more
    close = mx.abs(out.astype(mx.float32) - expected) <= allowed  # which a NaN is not
    assert mx.all(close), "the numbers differ"


def _is_cheap(counts: dict[str, int], x: mx.array) -> None:
    """What nobody sees in the numbers."""
    moved, most = counts["moved"], 4 * x.nbytes  # x twice, the weight and the output: each as large as x
    assert moved <= most, f"{moved} bytes are moved, where {most} are enough"
    assert counts["bank_conflicts"] == 0, f"{counts['bank_conflicts']} bank conflicts"
    assert counts["barriers"] <= 9 * len(x), f"{counts['barriers']} barriers in {len(x)} rows"
