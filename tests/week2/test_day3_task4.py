"""Week 2, day 3, task 4: dequantize."""

import mlx.core as mx
import numpy as np
import pytest
from tests.week2.packed import any_words, by_bits, by_group, weights64

from tiny_llm.quantized import affine
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.rounding import EPSILON, exact, to_float64
from tiny_llm_course.testkit.sizes import sweep


@built
def dequantized(scales, biases, packed, group_size=64, bits=4):
    return lambda scales, biases: affine.dequantize(packed, scales, biases, group_size, bits)


def dequantizing(packed, group_size, bits):
    """Return the formula for these words, which the test kit cannot pass as floats."""

    def dequantized64(scales, biases, packed=None, group_size=group_size, bits=bits, *, r=exact):
        q = weights64(kept, mx.ones(scales.shape), mx.zeros(scales.shape), group_size, bits)
        wide = [np.repeat(x, group_size, -1) for x in (scales, biases)]
        return r(wide[0] * q + wide[1])

    kept = packed
    return dequantized64


def dequantizes(packed, scales, biases, group_size, bits, seed, expected=None):
    formula = dequantizing(packed, group_size, bits)
    agrees(dequantized, formula, scales, biases, packed, group_size, bits, seed=seed, expected=expected)


def a_triple(seed, dtype, shape, group_size, bits):
    draw = normals(seed, dtype)
    *leading, groups = shape
    return any_words(seed, *leading, groups * group_size * bits // 32), draw(*shape), draw(*shape)


@by_dtype
@by_bits
@by_group
def test_task_4_dequantize_formula(group_size, bits, dtype):
    dequantizes(*a_triple(1, dtype, (3, 2), group_size, bits), group_size, bits, 1)


@pytest.mark.parametrize("shape", [(2,), (2, 3, 2), (2, 1, 3, 1)], ids=str)
def test_task_4_dequantize_any_shape(shape):
    dequantizes(*a_triple(2, mx.float32, shape, 32, 4), 32, 4, 2)


@by_bits
def test_task_4_dequantize_mlx(bits):
    packed, scales, biases = a_triple(3, mx.float32, (3, 2), 64, bits)
    expected = to_float64(mx.dequantize(packed, scales, biases, group_size=64, bits=bits))
    dequantizes(packed, scales, biases, 64, bits, 3, expected)


@by_dtype
@by_bits
def test_task_4_dequantize_computes_in_float32(bits, dtype):
    """scale * q and the bias nearly cancel: what remains is the error of a narrow product."""
    scales = normals(5, dtype)(3, 2)
    packed, biases = mx.full((3, 2 * 64 * bits // 32), 0xFFFFFFFF, mx.uint32), -(scales * (2**bits - 1))
    case = f"{dtype_word(dtype)}, every q 2**bits - 1, biases -scales * (2**bits - 1), bits {bits}, seed 5"
    with noted(case):
        found = affine.dequantize(packed, scales, biases, 64, bits)
    expected = weights64(packed, scales, biases, 64, bits)
    allowed = EPSILON[dtype] * np.abs(expected) + EPSILON[mx.float32] * np.abs(to_float64(biases)).max()
    compare(found, expected, dtype, allowed, case, expected.size)


def test_task_4_dequantize_defaults():
    packed, scales, biases = a_triple(4, mx.float32, (3, 2), 64, 4)
    with noted(case := "float32, packed 3 x 16, scales 3 x 2, no group_size and no bits, seed 4"):
        found = affine.dequantize(packed, scales, biases)
    expected = weights64(packed, scales, biases, 64, 4)
    compare(found, expected, mx.float32, 1e-4, case, expected.size)


def test_task_4_dequantize_sweep():
    for n in sweep(A=130, G=9):
        group_size, bits = n.turn(64, 32, 128), n.turn(4, 8)
        packed, scales, biases = a_triple(n.seed, n.dtype, (n.A, n.G), group_size, bits)
        dequantizes(packed, scales * n.spread, biases * n.spread, group_size, bits, n)


@pytest.mark.parametrize("bits", [0, 2, 16])
def test_task_4_dequantize_refuses_other_bits(bits):
    columns = max(1, 64 * bits // 32)
    with raises_value_error(f"packed 2 x {columns}, bits {bits}"):
        affine.dequantize(mx.zeros((2, columns), mx.uint32), mx.ones((2, 1)), mx.ones((2, 1)), 64, bits)
