"""Week 2, day 6, task 1: quantized matvec."""

import pytest
from tests.week2.matrices import biases_alone, by, matrix, one_weight, scales_alone
from tests.week2.products import as_mlx, as_pytorch, by_group, every_scale, large_sums, many_sizes, on_the_gpu, right

from tiny_llm.metal import quantized
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import LINE, costs_at_most
from tiny_llm_course.testkit.marks import by_dtype, on


@by_group
@by_dtype
def test_task_1_matvec_formula(dtype, group_size):
    right(quantized.quantized_matvec, 1, (), 5, 3 * group_size, group_size, dtype)


@by_dtype
def test_task_1_matvec_scales(dtype):
    """Scales and biases may have a dtype different from x's."""
    every_scale(quantized.quantized_matvec, dtype)


@pytest.mark.parametrize("outputs", [1, 7, 8, 9, 16, 21])
def test_task_1_matvec_rows(outputs):
    """Fewer rows than SIMD-groups in a threadgroup, as many, one more."""
    right(quantized.quantized_matvec, 2, (), outputs, 64, 64)


@pytest.mark.parametrize("inputs", [32, 224, 256, 288, 512, 1056])
def test_task_1_matvec_inputs(inputs):
    """Fewer words than lanes in a SIMD-group, as many, some more."""
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
    """Every word moves once, scales and biases a line per 32 words, x once per 8 rows, y a line per element."""
    x, given = normals(9)(1024), matrix(9, 16, 1024, group_size)
    words = 16 * 1024 // 2
    enough = words + 2 * words // 2 + 2 * x.nbytes + 16 * LINE
    costs_at_most(by(quantized.quantized_matvec), x, *given, group_size, seed=9, moved=enough)


def test_task_1_matvec_banks():
    """No bank conflicts, neither when x is written to threadgroup memory nor when it is read."""
    x, given = normals(10)(512), matrix(10, 8, 512, 64)
    costs_at_most(by(quantized.quantized_matvec), x, *given, 64, seed=10, bank_conflicts=0)


@on("gpu")
def test_task_1_matvec_on_the_gpu():
    on_the_gpu(quantized.quantized_matvec)


def test_task_1_matvec_sweep():
    many_sizes(quantized.quantized_matvec)
