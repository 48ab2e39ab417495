"""Week 2, day 6, task 4: split-K."""

import math
from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from tests.week2.matrices import biases_alone, by, matrix, multiplies, one_weight, scales_alone
from tests.week2.products import as_mlx, as_pytorch, by_group, every_scale, large_sums, on_the_gpu

from tiny_llm.metal import quantized
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import LINE, costs_at_most
from tiny_llm_course.testkit.marks import by_dtype, on
from tiny_llm_course.testkit.rounding import exact, in_float32
from tiny_llm_course.testkit.sizes import sweep

split_in_3 = partial(quantized.quantized_split, parts=3)


def parts64(x, q, scales, biases, group_size, parts, *, r=exact):
    """Compare the partial products of each part."""
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
    """1,184 inputs are 5 blocks, the last one partial: as many parts, fewer, and more."""
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
    """Every word moves once for all rows of x; the rest as in task 1."""
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
        multiplies(partial(quantized.quantized_split, parts=parts), x, *given, group_size, seed=n)
