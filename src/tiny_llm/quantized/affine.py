"""Weights in groups: each has a scale and a bias of its own, and each weight is a small whole number."""

import mlx.core as mx

from .packing import pack, unpack


def quantize(w: mx.array, group_size: int = 64, bits: int = 4) -> tuple[mx.array, mx.array, mx.array]:
    """Turn weights into whole numbers q from 0 to 2**bits - 1, so that `scale * q + bias` is close to each.

    A group is `group_size` neighbours of a row. All is computed in float32, bit for bit as MLX does it:

    - The steps: `scale = (max - min) / (2**bits - 1)`, and at least 1e-7.
    - The edge is min or max, whichever is further from 0; max if both are equally far. There q is 0, and the weight is
      kept as it is: `bias = edge`. If the edge is max, the scale is negative.
    - Zero: the scale is changed a little, so that a whole number of steps leads from the edge to 0:
      `scale = edge / n` with `n = round(edge / scale)`. If n is 0, the scale stays, and the bias is 0.
    - `q = round((w - bias) / scale)`, and what lies outside of 0 to 2**bits - 1 becomes the nearer of the two.

    Halves are rounded to the even neighbour, as `mx.round` does. Scales and biases are rounded to w's dtype at the very
    end, so that the q are those of unrounded ones.

    Args:
        w: O x I, float32, float16 or bfloat16. It is not changed.
        group_size: 32, 64 or 128; I is a multiple of it.
        bits: 4 or 8.

    Returns:
        The packed q, O x (I * bits / 32), uint32, then scales and biases, O x (I / group_size) each, in w's dtype.

    Raises:
        ValueError: I is no multiple of group_size, or bits neither 4 nor 8. The message says what is wrong.

    Source: `mx.quantize`.
    """
    raise NotImplementedError("2.3.3 Quantize by min and max")


def dequantize(packed: mx.array, scales: mx.array, biases: mx.array, group_size: int = 64, bits: int = 4) -> mx.array:
    """The weights that quantized ones stand for: scale * q + bias, computed in float32.

    Args:
        packed: N.. x (I * bits / 32), uint32. None of the arguments is changed.
        scales: N.. x (I / group_size), float32, float16 or bfloat16.
        biases: as scales.
        group_size: how many neighbours share a scale and a bias.
        bits: 4 or 8.

    Returns:
        N.. x I, in the dtype of scales.

    Raises:
        ValueError: bits is neither 4 nor 8.

    Source: `mx.dequantize`.
    """
    raise NotImplementedError("2.3.4 Dequantize")
