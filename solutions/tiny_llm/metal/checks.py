"""A check of the RMSNorm kernel: its result, its memory accesses and its cost."""

from collections.abc import Callable

import mlx.core as mx

LINE = 64  # bytes of a cache line of device memory

Norm = Callable[[mx.array, mx.array, float], tuple[mx.array, dict[str, int]]]


def check_rms_norm(rms_norm: Norm) -> None:
    """Return if a kernel does what `ops.rms_norm` and `rms_norm.metal` promise; raise otherwise.

    For every size that means: the simulator finds no fault; the values are right up to rounding, and a correct kernel
    need not round as yours does; there are no bank conflicts; at most 9 barriers per row; and, where rows are whole
    cache lines, no more memory traffic than x twice, and the weight and the output once per row.

    Args:
        rms_norm: called as rms_norm(x, weight, eps), it runs on the simulator and returns the output, of x's shape and
            dtype, and the counts {"moved": bytes in lines of 64, "bank_conflicts": ..., "barriers": ...}, summed over
            all threadgroups. It raises a RuntimeError where the simulator finds a fault.

    Raises:
        Exception: the kernel is wrong. Any exception but NotImplementedError counts, such as that of `assert`; the
            return value is ignored.
    """
    eps = 0.5  # large enough that a missing eps shows
    for dtype, spread in ((mx.float32, 1.0), (mx.float16, 400.0)):  # the square of 400 overflows float16
        # Less than one SIMD-group, one with more numbers than threads, and eight with ten numbers per thread.
        for rows, size in ((3, 20), (2, 100), (2, 2560)):
            x, weight = _inputs(rows, size, spread, dtype)
            out, counts = rms_norm(x, weight, eps)
            _agrees(out, _formula(x, weight, eps), dtype)
            if size * x.itemsize % LINE == 0:
                _is_cheap(counts, x)


def _inputs(rows: int, size: int, spread: float, dtype: mx.Dtype) -> tuple[mx.array, mx.array]:
    """Return x, rows x size, and a random weight."""
    x = spread * mx.random.normal((rows, size), key=mx.random.key(1))
    weight = mx.random.normal((size,), key=mx.random.key(2))
    return x.astype(dtype), weight.astype(dtype)


def _formula(x: mx.array, weight: mx.array, eps: float) -> mx.array:
    """Compute the definition on whole arrays, in float32."""
    x, weight = x.astype(mx.float32), weight.astype(mx.float32)
    return x / mx.sqrt(mx.mean(x * x, axis=-1, keepdims=True) + eps) * weight  # rows x E


def _agrees(out: mx.array, expected: mx.array, dtype: mx.Dtype) -> None:
    """Assert the shape, the promised dtype, and values within that dtype's rounding."""
    assert out.shape == expected.shape, f"{out.shape}, not {expected.shape}"
    assert out.dtype == dtype, f"{out.dtype}, not {dtype}"
    allowed = 16 * mx.finfo(dtype).eps * (1 + mx.abs(expected))  # a few roundings; a mistake is far larger
    close = mx.abs(out.astype(mx.float32) - expected) <= allowed  # which a NaN is not
    assert mx.all(close), "the numbers differ"


def _is_cheap(counts: dict[str, int], x: mx.array) -> None:
    """Assert the cost, which does not show in the values."""
    moved, most = counts["moved"], 4 * x.nbytes  # x twice, weight and output once per row: four times x
    assert moved <= most, f"{moved} bytes are moved, where {most} are enough"
    assert counts["bank_conflicts"] == 0, f"{counts['bank_conflicts']} bank conflicts"
    assert counts["barriers"] <= 9 * len(x), f"{counts['barriers']} barriers in {len(x)} rows"
