"""Week 2, day 6: products with a matrix in 4 bits, in Metal, one by one.

What is expected is the product in float64 with the weights that the packed ones stand for, MLX's own `quantized_matmul`
in float32, and PyTorch's product. The simulator runs the kernels and counts what they move; where there is a GPU, it
runs them, too.
"""

import math
from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from tests.week2.matrices import (
    BITS,
    biases_alone,
    by,
    matrix,
    one_weight,
    product64,
    scales_alone,
    unpacked,
)

from tiny_llm.metal import quantized
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.kernels import LINE, costs_at_most
from tiny_llm_course.testkit.marks import needs, on
from tiny_llm_course.testkit.rounding import exact, in_float32, to_float64
from tiny_llm_course.testkit.sizes import sweep

by_group = pytest.mark.parametrize("group_size", [32, 64, 128])
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
split_in_3 = partial(quantized.quantized_split, parts=3)


def right(kernel, seed, rows, outputs, inputs, group_size, dtype=mx.float32, scales=None, expected=None):
    """A kernel's product is the formula's: of a drawn matrix, and of x, `rows` of them or a vector."""
    x = normals(seed, dtype)(*rows, inputs)
    given = matrix(seed, outputs, inputs, group_size, scales or dtype)
    agrees(by(kernel), product64, x, *given, group_size, seed=seed, expected=expected)


def every_scale(kernel, dtype, *rows):
    """Of x in a dtype, with scales in each."""
    for seed, scales in enumerate(DTYPES):
        right(kernel, seed, rows, 5, 192, 64, dtype, scales)


def as_mlx(kernel, group_size, *rows):
    """Of a matrix that MLX has quantized, what MLX multiplies."""
    draw = normals(5)
    words, scales, biases = mx.quantize(draw(6, 384), group_size, BITS)
    x = draw(*rows, 384)
    expected = mx.quantized_matmul(x, words, scales, biases, group_size=group_size, bits=BITS)
    given = unpacked(words), scales, biases, group_size
    agrees(by(kernel), product64, x, *given, seed=5, expected=to_float64(expected))


def as_pytorch(pytorch, kernel, dtype, *rows):
    """What PyTorch multiplies, of the weights in float32."""

    def product(torch, x, q, scales, biases):
        w = q.unflatten(-1, (-1, 32)) * scales[..., None] + biases[..., None]
        return x @ w.flatten(-2).T

    x, given = normals(6, dtype)(*rows, 160), matrix(6, 7, 160, 32, dtype)
    agrees(by(kernel), product64, x, *given, 32, seed=6, expected=pytorch(product, x, *given))


def large_sums(kernel, *rows):
    """The numbers and their sum fit into float16; what comes between does not."""
    x = mx.array([20000] * 64 + [-20000] * 62 + [-19000, -17000], mx.float16)
    q, ones = mx.ones((3, 128), mx.uint8), mx.ones((3, 2), mx.float16)
    agrees(by(kernel), product64, mx.broadcast_to(x, (*rows, 128)), q, ones, 0 * ones, 64, seed=7)


def on_the_gpu(kernel, *rows):
    for dtype in DTYPES:
        right(kernel, 8, rows, 37, 1056, 32, dtype)


def many_sizes(kernel, **rows):
    """The sweep of a product: rows, groups of a row, and what all is made of."""
    for n in sweep(**rows, O=80, G=8):
        group_size = n.turn(64, 32, 128)
        x = normals(n.seed, n.dtype)(*(n.sizes[letter] for letter in rows), n.G * group_size, spread=n.spread)
        given = matrix(n.seed, n.O, n.G * group_size, group_size, n.dtype)
        agrees(by(kernel), product64, x, *given, group_size, seed=n)


# Task 1, a SIMD-group for each row


@by_group
@by_dtype
def test_task_1_matvec_formula(dtype, group_size):
    right(quantized.quantized_matvec, 1, (), 5, 3 * group_size, group_size, dtype)


@by_dtype
def test_task_1_matvec_scales(dtype):
    """Scales and biases are in a dtype of their own."""
    every_scale(quantized.quantized_matvec, dtype)


@pytest.mark.parametrize("outputs", [1, 7, 8, 9, 16, 21])
def test_task_1_matvec_rows(outputs):
    """Fewer rows than a threadgroup has SIMD-groups, as many, one more."""
    right(quantized.quantized_matvec, 2, (), outputs, 64, 64)


@pytest.mark.parametrize("inputs", [32, 224, 256, 288, 512, 1056])
def test_task_1_matvec_inputs(inputs):
    """Fewer words than a SIMD-group has lanes, as many, some more."""
    right(quantized.quantized_matvec, 3, (), 3, inputs, 32)


def test_task_1_matvec_one_weight():
    one_weight(quantized.quantized_matvec)


def test_task_1_matvec_scales_alone():
    scales_alone(quantized.quantized_matvec)


def test_task_1_matvec_biases_alone():
    biases_alone(quantized.quantized_matvec)


def test_task_1_matvec_large_sums():
    large_sums(quantized.quantized_matvec)


@by_group
def test_task_1_matvec_as_mlx(group_size):
    as_mlx(quantized.quantized_matvec, group_size)


@by_dtype
def test_task_1_matvec_as_pytorch(pytorch, dtype):
    as_pytorch(pytorch, quantized.quantized_matvec, dtype)


@pytest.mark.parametrize("group_size", [32, 64])
def test_task_1_matvec_moves(group_size):
    """Every word once; of scales and biases a line for 32 words; x once for 8 rows; a line for each number of y."""
    x, given = normals(9)(1024), matrix(9, 16, 1024, group_size)
    words = 16 * 1024 // 2
    enough = words + 2 * words // 2 + 2 * x.nbytes + 16 * LINE
    costs_at_most(by(quantized.quantized_matvec), x, *given, group_size, seed=9, moved=enough)


def test_task_1_matvec_banks():
    """No thread waits for another one's bank, neither to put a number of x there nor to read it."""
    x, given = normals(10)(512), matrix(10, 8, 512, 64)
    costs_at_most(by(quantized.quantized_matvec), x, *given, 64, seed=10, bank_conflicts=0)


@on("gpu")
def test_task_1_matvec_on_the_gpu():
    on_the_gpu(quantized.quantized_matvec)


def test_task_1_matvec_sweep():
    many_sizes(quantized.quantized_matvec)


# Task 2, tile by tile


def tiles_cost_at_most(kernel, seed, **enough):
    """Of 2 x 2 tiles: for 32 inputs of a row two lines of x, and one each of words, scales and biases."""
    x, given = normals(seed)(64, 256), matrix(seed, 64, 256, 32)
    moved = 4 * 8 * 32 * (2 + 3) * LINE + 64 * 64 * 4
    costs_at_most(by(kernel), x, *given, 32, seed=seed, moved=moved, **enough)


@by_group
@by_dtype
def test_task_2_tiles_formula(dtype, group_size):
    right(quantized.quantized_tiles, 1, (3,), 5, 3 * group_size, group_size, dtype)


@by_dtype
def test_task_2_tiles_scales(dtype):
    every_scale(quantized.quantized_tiles, dtype, 2)


@pytest.mark.parametrize("rows", [1, 4, 31, 32, 33, 65])
def test_task_2_tiles_rows(rows):
    """Rows for a part of a tile, a whole one, some more."""
    right(quantized.quantized_tiles, 2, (rows,), 6, 64, 64)


@pytest.mark.parametrize("outputs", [1, 4, 31, 32, 33, 65])
def test_task_2_tiles_columns(outputs):
    right(quantized.quantized_tiles, 3, (3,), outputs, 64, 64)


def test_task_2_tiles_several():
    """Tiles below each other and beside each other."""
    right(quantized.quantized_tiles, 4, (40,), 70, 96, 32)


def test_task_2_tiles_one_weight():
    one_weight(quantized.quantized_tiles, 2)


def test_task_2_tiles_scales_alone():
    scales_alone(quantized.quantized_tiles, 3)


def test_task_2_tiles_biases_alone():
    biases_alone(quantized.quantized_tiles, 3)


def test_task_2_tiles_large_sums():
    large_sums(quantized.quantized_tiles, 2)


@by_group
def test_task_2_tiles_as_mlx(group_size):
    as_mlx(quantized.quantized_tiles, group_size, 7)


@by_dtype
def test_task_2_tiles_as_pytorch(pytorch, dtype):
    as_pytorch(pytorch, quantized.quantized_tiles, dtype, 3)


def test_task_2_tiles_moves():
    tiles_cost_at_most(quantized.quantized_tiles, 9)


def test_task_2_tiles_banks():
    """No thread waits for another one's bank."""
    tiles_cost_at_most(quantized.quantized_tiles, 10, bank_conflicts=0)


@on("gpu")
def test_task_2_tiles_on_the_gpu():
    on_the_gpu(quantized.quantized_tiles, 35)


def test_task_2_tiles_sweep():
    many_sizes(quantized.quantized_tiles, N=80)


# Task 3, the same by matrices of 8 x 8


@by_group
@by_dtype
def test_task_3_matrices_formula(dtype, group_size):
    right(quantized.quantized_matrices, 1, (3,), 5, 3 * group_size, group_size, dtype)


@by_dtype
def test_task_3_matrices_scales(dtype):
    every_scale(quantized.quantized_matrices, dtype, 2)


@pytest.mark.parametrize("rows", [1, 8, 9, 16, 17, 31, 32, 33, 65])
def test_task_3_matrices_rows(rows):
    """Rows for a part of a matrix, a whole one, some more; and so for a SIMD-group and a tile."""
    right(quantized.quantized_matrices, 2, (rows,), 6, 64, 64)


@pytest.mark.parametrize("outputs", [1, 8, 9, 16, 17, 31, 32, 33, 65])
def test_task_3_matrices_columns(outputs):
    right(quantized.quantized_matrices, 3, (3,), outputs, 64, 64)


def test_task_3_matrices_several():
    right(quantized.quantized_matrices, 4, (40,), 70, 96, 32)


def test_task_3_matrices_one_weight():
    one_weight(quantized.quantized_matrices, 2)


def test_task_3_matrices_scales_alone():
    scales_alone(quantized.quantized_matrices, 3)


def test_task_3_matrices_biases_alone():
    biases_alone(quantized.quantized_matrices, 3)


def test_task_3_matrices_large_sums():
    large_sums(quantized.quantized_matrices, 2)


@by_group
def test_task_3_matrices_as_mlx(group_size):
    as_mlx(quantized.quantized_matrices, group_size, 7)


@by_dtype
def test_task_3_matrices_as_pytorch(pytorch, dtype):
    as_pytorch(pytorch, quantized.quantized_matrices, dtype, 3)


def test_task_3_matrices_moves():
    tiles_cost_at_most(quantized.quantized_matrices, 9)


def test_task_3_matrices_banks():
    """Some turns at a bank have to be taken: of 4 tiles, 8 steps each and 4 SIMD-groups, 64 at most in a step."""
    tiles_cost_at_most(quantized.quantized_matrices, 10, bank_conflicts=4 * 8 * 4 * 64)


@needs("metal")
@on("gpu")
def test_task_3_matrices_on_the_gpu():
    on_the_gpu(quantized.quantized_matrices, 35)


def test_task_3_matrices_sweep():
    many_sizes(quantized.quantized_matrices, N=80)


# Task 4, in parts


def parts64(x, q, scales, biases, group_size, parts, *, r=exact):
    """The products of each part's inputs."""
    wide, inputs = in_float32(r), x.shape[-1]
    scale, bias = (np.repeat(each, group_size, axis=-1) for each in (scales, biases))
    w, each = wide(wide(scale * q) + bias), 256 * math.ceil(math.ceil(inputs / 256) / parts)
    cuts = [slice(part * each, (part + 1) * each) for part in range(parts)]
    return wide(np.stack([x[:, cut] @ w[:, cut].T for cut in cuts]))


def parts_right(seed, rows, outputs, inputs, group_size, parts, dtype=mx.float32):
    x = normals(seed, dtype)(rows, inputs)
    given = matrix(seed, outputs, inputs, group_size, dtype)
    agrees(by(quantized.split_products), parts64, x, *given, group_size, parts, seed=seed, dtype=mx.float32)


@by_group
@by_dtype
def test_task_4_split_formula(dtype, group_size):
    parts_right(1, 3, 5, 6 * group_size, group_size, 2, dtype)


@by_dtype
def test_task_4_split_scales(dtype):
    every_scale(split_in_3, dtype, 2)


@pytest.mark.parametrize("parts", [1, 2, 3, 4, 5, 7])
def test_task_4_split_parts(parts):
    """1,184 inputs are 5 blocks, the last one short: for as many parts, fewer, and more."""
    parts_right(2, 2, 3, 1184, 32, parts)


@pytest.mark.parametrize("rows", range(1, 9))
def test_task_4_split_rows(rows):
    parts_right(3, rows, 6, 320, 64, 2)


@pytest.mark.parametrize("outputs", [1, 7, 8, 9, 21])
def test_task_4_split_columns(outputs):
    parts_right(4, 3, outputs, 320, 64, 2)


def test_task_4_split_one_weight():
    one_weight(split_in_3, 2)


def test_task_4_split_scales_alone():
    scales_alone(split_in_3, 3)


def test_task_4_split_biases_alone():
    biases_alone(split_in_3, 3)


def test_task_4_split_large_sums():
    large_sums(split_in_3, 2)


@by_group
def test_task_4_split_as_mlx(group_size):
    as_mlx(split_in_3, group_size, 7)


@by_dtype
def test_task_4_split_as_pytorch(pytorch, dtype):
    as_pytorch(pytorch, split_in_3, dtype, 3)


def test_task_4_split_moves():
    """Every word once, for all rows of x; the rest as in task 1."""
    x, given = normals(9)(8, 1024), matrix(9, 16, 1024, 64)
    words = 16 * 1024 // 2
    enough = words + 2 * words // 2 + 2 * x.nbytes + 16 * 8 * 2 * LINE
    costs_at_most(by(quantized.split_products), x, *given, 64, 2, seed=9, moved=enough)


@on("gpu")
def test_task_4_split_on_the_gpu():
    on_the_gpu(split_in_3, 5)


def test_task_4_split_sweep():
    for n in sweep(N=8, O=80, G=24):
        group_size, parts = n.turn(64, 32, 128), n.turn(3, 1, 2, 8)
        x = normals(n.seed, n.dtype)(n.N, n.G * group_size, spread=n.spread)
        given = matrix(n.seed, n.O, n.G * group_size, group_size, n.dtype)
        program = by(partial(quantized.quantized_split, parts=parts))
        agrees(program, product64, x, *given, group_size, seed=n)
