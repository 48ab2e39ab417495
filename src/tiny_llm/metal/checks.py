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
    raise NotImplementedError("2.C Write the checks of a kernel")
