"""Week 2, day 6, task 2: tiled quantized matmul."""

import pytest
from tests.week2.matrices import biases_alone, one_weight, scales_alone
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
from tiny_llm_course.testkit.marks import by_dtype, on


@by_group
@by_dtype
def test_task_2_tiles_formula(dtype, group_size):
    right(quantized.quantized_tiles, 1, (3,), 5, 3 * group_size, group_size, dtype)


@by_dtype
def test_task_2_tiles_scales(dtype):
    every_scale(quantized.quantized_tiles, dtype, 2)


@pytest.mark.parametrize("rows", [1, 4, 31, 32, 33, 65])
def test_task_2_tiles_rows(rows):
    """Rows for a partial tile, a whole one, some more."""
    right(quantized.quantized_tiles, 2, (rows,), 6, 64, 64)


@pytest.mark.parametrize("outputs", [1, 4, 31, 32, 33, 65])
def test_task_2_tiles_columns(outputs):
    right(quantized.quantized_tiles, 3, (3,), outputs, 64, 64)


def test_task_2_tiles_several():
    """Several tiles in both directions."""
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
    """No bank conflicts."""
    tiles_cost_at_most(quantized.quantized_tiles, 10, bank_conflicts=0)


@on("gpu")
def test_task_2_tiles_on_the_gpu():
    on_the_gpu(quantized.quantized_tiles, 35)


@pytest.mark.parametrize("third", range(3))
def test_task_2_tiles_sweep(third):
    many_sizes(quantized.quantized_tiles, third, N=80)
