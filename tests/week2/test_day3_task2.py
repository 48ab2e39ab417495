"""Week 2, day 3, task 2: unpack."""

import mlx.core as mx
import numpy as np
import pytest
from tests.week2.packed import any_words, by_bits, numbers64

from tiny_llm.quantized import packing
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.cases import dtype_word, type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes


def unpacked(packed, bits=4):
    found = packing.unpack(packed, bits)
    if type(found) is mx.array and found.dtype == mx.uint32:
        return found.astype(mx.float32)
    what = dtype_word(found.dtype) if type(found) is mx.array else type_words(found)
    raise CheckFailed(
        Finding(Kind.DTYPE, f"the numbers are {what}, expected an mx.array of uint32", (), f"bits {bits}")
    )


def unpacks(words, bits, seed, expected=None):
    """`agrees` passes the words to the formula in float32, which rounds them, so the exact numbers are passed, too."""
    exact = numbers64(np.array(words).astype(np.float64), bits) if expected is None else expected
    agrees(unpacked, numbers64, words, bits, seed=seed, expected=exact, dtype=mx.float32)


def test_task_2_unpack_one_word():
    unpacks(mx.array([0x87654321], mx.uint32), 4, 0)
    unpacks(mx.array([0x87654321], mx.uint32), 8, 0)


@by_bits
@pytest.mark.parametrize("shape", [(4,), (3, 2), (2, 3, 1), (2, 1, 2, 3)], ids=str)
def test_task_2_unpack_any_shape(shape, bits):
    unpacks(any_words(1, *shape), bits, 1)


@by_bits
def test_task_2_unpack_largest(bits):
    unpacks(mx.array([0xFFFFFFFF, 0, 0xF0F0F0F0, 0x0F0F0F0F, 0x80000000, 1], mx.uint32), bits, 2)


@by_bits
def test_task_2_unpack_mlx(bits):
    """MLX's dequantize with scales of 1 and biases of 0 returns the numbers."""
    words = any_words(3, 3, 16)
    ones = mx.ones((3, 16 * 32 // bits // 64))
    expected = to_float64(mx.dequantize(words, ones, mx.zeros_like(ones), group_size=64, bits=bits))
    unpacks(words, bits, 3, expected)


def test_task_2_unpack_sweep():
    for n in sizes(A=9, B=9, W=1100):
        unpacks(any_words(n.seed, n.A, n.B, n.W), n.turn(4, 8), n.seed)


@pytest.mark.parametrize("bits", [0, 2, 3, 5, 16, 32])
def test_task_2_unpack_refuses_other_bits(bits):
    with raises_value_error(f"bits {bits}, packed 4", str(bits)):
        packing.unpack(mx.zeros(4, mx.uint32), bits)
