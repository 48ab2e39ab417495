"""Week 2, day 6, task 3: SIMD-group matrices."""

import pytest
from tests.week2.matrices import biases_alone, by, matrix, one_weight, scales_alone
from tests.week2.products import (
    as_mlx,
    as_pytorch,
    by_group,
    every_scale,
    large_sums,
    many_sizes,
    on_the_gpu,
    right,
    tiles_cost_at_most,
)

from tiny_llm.metal import quantized
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import costs
from tiny_llm_course.testkit.marks import by_dtype, needs, on


@by_group
@by_dtype
def test_task_3_matrices_formula(dtype, group_size):
    right(quantized.quantized_matrices, 1, (3,), 5, 3 * group_size, group_size, dtype)


@by_dtype
def test_task_3_matrices_scales(dtype):
    every_scale(quantized.quantized_matrices, dtype, 2)


@pytest.mark.parametrize("rows", [1, 8, 9, 16, 17, 31, 32, 33, 65])
def test_task_3_matrices_rows(rows):
    """Rows for a partial matrix, a whole one, some more; and likewise for a SIMD-group and a tile."""
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
    """Some bank conflicts are unavoidable: 4 tiles, 8 steps each and 4 SIMD-groups, at most 64 in a step."""
    tiles_cost_at_most(quantized.quantized_matrices, 10, bank_conflicts=4 * 8 * 4 * 64)


def test_task_3_matrices_multiplies_matrices():
    """8 x 8 matrices of y, each the sum of 32 products of matrices."""
    case = "float32, x 64 x 256, q 64 x 256, group_size 32, seed 11"
    found = costs(by(quantized.quantized_matrices), normals(11)(64, 256), *matrix(11, 64, 256, 32), 32, case=case)
    if (products := found["matrix_products"]) < 8 * 8 * 32:
        headline = f"your kernel computes {products:,} products of SIMD-group matrices, where y takes 2,048"
        raise CheckFailed(Finding(Kind.COSTS, headline, ("counted by the simulator",), case))


@needs("metal")
@on("gpu")
def test_task_3_matrices_on_the_gpu():
    on_the_gpu(quantized.quantized_matrices, 35)


def test_task_3_matrices_sweep():
    many_sizes(quantized.quantized_matrices, N=80)
