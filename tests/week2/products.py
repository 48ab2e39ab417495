"""Checks of products with a quantized matrix, for any kernel.

The oracles are the product with the dequantized weights in float64, MLX's `quantized_matmul` in float32, and
PyTorch's product. The simulator runs the kernels and counts their memory traffic; where there is a GPU, it runs them
too.
"""

import itertools

import mlx.core as mx
import pytest
from tests.week2.matrices import BITS, by, matrix, multiplies, unpacked

from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.kernels import LINE, costs_at_most
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep

by_group = pytest.mark.parametrize("group_size", [32, 64, 128])


def right(kernel, seed, rows, outputs, inputs, group_size, dtype=mx.float32, scales=None, expected=None):
    """Compare a kernel with the formula, for a random matrix and `rows` rows of x or a vector."""
    x = normals(seed, dtype)(*rows, inputs)
    given = matrix(seed, outputs, inputs, group_size, scales or dtype)
    multiplies(kernel, x, *given, group_size, seed=seed, expected=expected)


def every_scale(kernel, dtype, *rows):
    """Compare for x in one dtype, with scales in each dtype."""
    for seed, scales in enumerate(DTYPES):
        right(kernel, seed, rows, 5, 192, 64, dtype, scales)


def as_mlx(kernel, group_size, *rows):
    """Compare with MLX's product, for a matrix that MLX has quantized."""
    draw = normals(5)
    words, scales, biases = mx.quantize(draw(6, 384), group_size, BITS)
    x = draw(*rows, 384)
    expected = mx.quantized_matmul(x, words, scales, biases, group_size=group_size, bits=BITS)
    given = unpacked(words), scales, biases, group_size
    multiplies(kernel, x, *given, seed=5, expected=to_float64(expected))


def as_pytorch(pytorch, kernel, dtype, *rows):
    """Compare with PyTorch's product of the float32 weights."""

    def product(torch, x, q, scales, biases):
        w = q.unflatten(-1, (-1, 32)) * scales[..., None] + biases[..., None]
        return x @ w.flatten(-2).T

    x, given = normals(6, dtype)(*rows, 160), matrix(6, 7, 160, 32, dtype)
    multiplies(kernel, x, *given, 32, seed=6, expected=pytorch(product, x, *given))


def large_sums(kernel, *rows):
    """The values and their sum fit in float16; the intermediate sums do not."""
    x = mx.array([20000] * 64 + [-20000] * 62 + [-19000, -17000], mx.float16)
    q, ones = mx.ones((3, 128), mx.uint8), mx.ones((3, 2), mx.float16)
    multiplies(kernel, mx.broadcast_to(x, (*rows, 128)), q, ones, 0 * ones, 64, seed=7)


def on_the_gpu(kernel, *rows):
    for dtype in DTYPES:
        right(kernel, 8, rows, 37, 1056, 32, dtype)


def many_sizes(kernel, third=None, **rows):
    """Sweep rows, groups per row and dtypes: all cases, or a third of them."""
    for n in itertools.islice(sweep(**rows, O=80, G=8), third, None, 1 if third is None else 3):
        group_size = n.turn(64, 32, 128)
        x = normals(n.seed, n.dtype)(*(n.sizes[letter] for letter in rows), n.G * group_size, spread=n.spread)
        given = matrix(n.seed, n.O, n.G * group_size, group_size, n.dtype)
        multiplies(kernel, x, *given, group_size, seed=n)


def tiles_cost_at_most(kernel, seed, **enough):
    """The traffic of 2 x 2 tiles: for 32 inputs of a row two lines of x, and one each of words, scales and biases."""
    x, given = normals(seed)(64, 256), matrix(seed, 64, 256, 32)
    moved = 4 * 8 * 32 * (2 + 3) * LINE + 64 * 64 * 4
    costs_at_most(by(kernel), x, *given, 32, seed=seed, moved=moved, **enough)
