"""Affine group quantization: each group of weights has a scale and a bias, each weight is a small integer."""

import mlx.core as mx

from .packing import pack, unpack


def quantize(w: mx.array, group_size: int = 64, bits: int = 4) -> tuple[mx.array, mx.array, mx.array]:
    """Quantize weights to integers q from 0 to 2**bits - 1, so that `scale * q + bias` is close to each.

    A group is `group_size` consecutive weights of a row. Everything is computed in float32, bit for bit as in MLX:

    - Step: `scale = (max - min) / (2**bits - 1)`, and at least 1e-7.
    - Edge: min or max, whichever is further from 0; max if both are equally far. Its q is 0 and it is stored exactly:
      `bias = edge`. If the edge is max, the scale is negative.
    - Zero: the scale is adjusted so that a whole number of steps leads from the edge to 0: `scale = edge / n` with
      `n = round(edge / scale)`. If n is 0, the scale stays and the bias is 0.
    - `q = round((w - bias) / scale)`, clipped to 0 .. 2**bits - 1.

    Rounding is half to even, as in `mx.round`. Scales and biases are rounded to w's dtype last, so q is computed from
    the unrounded ones.

    Args:
        w: O x I, float32, float16 or bfloat16. It is not changed.
        group_size: 32, 64 or 128; I is a multiple of it.
        bits: 4 or 8.

    Returns:
        The packed q, O x (I * bits / 32), uint32; then scales and biases, O x (I / group_size) each, in w's dtype.

    Raises:
        ValueError: I is not a multiple of group_size, or bits is neither 4 nor 8. The message states I and group_size,
            or bits.

    Source: `mx.quantize`.
    """
    raise NotImplementedError("2.3.3 Min-max quantization")


def dequantize(packed: mx.array, scales: mx.array, biases: mx.array, group_size: int = 64, bits: int = 4) -> mx.array:
    """Return scale * q + bias for every weight, computed in float32.

    Args:
        packed: N.. x (I * bits / 32), uint32. None of the arguments is changed.
        scales: N.. x (I / group_size), float32, float16 or bfloat16.
        biases: as scales.
        group_size: weights per group.
        bits: 4 or 8.

    Returns:
        N.. x I, in the dtype of scales.

    Raises:
        ValueError: bits is neither 4 nor 8. The message states it.

    Source: `mx.dequantize`, which computes in the dtype of scales.
    """
    raise NotImplementedError("2.3.4 Dequantize")
