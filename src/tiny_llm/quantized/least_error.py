"""Quantization that asks which scale and bias make the error small, where min and max only make it bounded."""

import mlx.core as mx

from .affine import quantize
from .packing import pack, unpack

ROUNDS = 6  # after which little is gained


def quantize_with_least_error(w: mx.array, group_size: int = 64, bits: int = 4) -> tuple[mx.array, mx.array, mx.array]:
    """Quantize with scales and biases that make the squared error of each group small.

    A group's error is the sum of (w - (scale * q + bias))**2 over its weights, with scale and bias as they are given
    back, in w's dtype.

    Args:
        w: O x I, float32, float16 or bfloat16. It is not changed.
        group_size: 32, 64 or 128; I is a multiple of it.
        bits: 4 or 8.

    Returns:
        The packed q, scales and biases, in the layout of `quantize`. No group has a larger error than with `quantize`.
        With 4 bits, and groups of 64 weights from a normal distribution, the error of many groups together is at most
        0.92 of what it is there.

    Raises:
        ValueError: as `quantize`.

    Source: Lloyd 1982: the best whole numbers for a line and the best line for the numbers, in turns.
    """
    raise NotImplementedError("2.3.5 Quantize with the least error")
