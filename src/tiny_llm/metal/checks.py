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
    raise NotImplementedError("2.C Write the checks for a kernel")
