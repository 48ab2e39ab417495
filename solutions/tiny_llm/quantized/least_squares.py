"""Least-squares quantization: scales and biases that minimize the squared error instead of spanning min to max."""

import mlx.core as mx

from .affine import quantize
from .packing import pack, unpack

ROUNDS = 6  # more gain little


def quantize_least_squares(w: mx.array, group_size: int = 64, bits: int = 4) -> tuple[mx.array, mx.array, mx.array]:
    """Quantize with scales and biases fitted to each group by least squares.

    A group's error is the sum of (w - (scale * q + bias))**2 over its weights, with scale and bias as returned, in w's
    dtype.

    Args:
        w: O x I, float32, float16 or bfloat16. It is not changed.
        group_size: 32, 64 or 128; I is a multiple of it.
        bits: 4 or 8.

    Returns:
        The packed q, scales and biases, in the layout of `quantize`. No group has a larger error than with `quantize`.
        With 4 bits and groups of 64 normally distributed weights, the total error of many groups is at most 0.92 times
        that of `quantize`.

    Raises:
        ValueError: as `quantize`.

    Source: Lloyd 1982: alternate between the best integers for a line and the best line for the integers.
    """
    packed, scales, biases = quantize(w, group_size, bits)
    groups = mx.unflatten(w.astype(mx.float32), -1, (-1, group_size))  # O x groups x group_size
    q = mx.unflatten(unpack(packed, bits), -1, (-1, group_size)).astype(mx.float32)
    scale, bias = (x.astype(mx.float32)[..., None] for x in (scales, biases))
    error = _error(groups, q, scale, bias)
    for _ in range(ROUNDS):
        # Rounded as they will be stored: the error must be that of the rounded scale and bias.
        new_scale, new_bias = (x.astype(w.dtype).astype(mx.float32) for x in _best_line(groups, q))
        new_q = mx.clip(mx.round((groups - new_bias) / new_scale), 0, 2**bits - 1)
        new_error = _error(groups, new_q, new_scale, new_bias)
        better = new_error < error  # also false where a scale of 0 made new_error NaN
        q, scale = mx.where(better, new_q, q), mx.where(better, new_scale, scale)
        bias, error = mx.where(better, new_bias, bias), mx.where(better, new_error, error)
    scales, biases = (x.squeeze(-1).astype(w.dtype) for x in (scale, bias))
    return pack(q.flatten(-2).astype(mx.uint32), bits), scales, biases


def _error(groups: mx.array, q: mx.array, scale: mx.array, bias: mx.array) -> mx.array:
    return mx.sum(mx.square(groups - (scale * q + bias)), axis=-1, keepdims=True)


def _best_line(groups: mx.array, q: mx.array) -> tuple[mx.array, mx.array]:
    """Return each group's least-squares scale and bias for given q; NaN where all of its q are equal."""
    middle, mean = mx.mean(q, axis=-1, keepdims=True), mx.mean(groups, axis=-1, keepdims=True)
    apart = q - middle
    scale = mx.sum(apart * (groups - mean), axis=-1, keepdims=True) / mx.sum(mx.square(apart), axis=-1, keepdims=True)
    return scale, mean - scale * middle
