"""Week 2, day 3, task 1: pack."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.packed import by_bits, halves, halves64, same_words

from tiny_llm.quantized import packing
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.cases import dtype_word, noted, shape_words
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def small_numbers(seed, bits, *shape, dtype=mx.uint32):
    return mx.array(np.random.default_rng(seed).integers(0, 2**bits, shape).astype(np.uint32)).astype(dtype)


def words_of(values, bits):
    """Return the words, by NumPy."""
    low, high = np.moveaxis(halves64(np.array(values).astype(np.float64), bits), -1, 0)
    return mx.array((low + 65536 * high).astype(np.uint32))


def packed_halves(values, bits=4):
    return halves(packing.pack(values, bits))


def packs(values, bits, seed):
    case = f"bits {bits}, values {shape_words(values.shape)} of {dtype_word(values.dtype)}, seed {seed}"
    with noted(case):
        words = packing.pack(values, bits)
    same_words(words, words_of(values, bits), case)
    agrees(packed_halves, halves64, values, bits, seed=seed, dtype=mx.float32)


@by_bits
def test_task_1_pack_one_word(bits):
    packs(mx.arange(1, 32 // bits + 1), bits, 0)


@by_bits
@pytest.mark.parametrize("shape", [(32,), (3, 16), (2, 3, 8), (2, 1, 2, 24)], ids=str)
def test_task_1_pack_any_shape(shape, bits):
    packs(small_numbers(1, bits, *shape), bits, 1)


@by_bits
@pytest.mark.parametrize("dtype", [mx.uint8, mx.int16, mx.int32, mx.uint32, mx.int64], ids=str)
def test_task_1_pack_any_integers(dtype, bits):
    """Includes 8-bit dtypes, which are shorter than a word. An int8 does not reach 255."""
    packs(small_numbers(2, bits, 2, 16, dtype=dtype), bits, 2)


@by_bits
def test_task_1_pack_largest(bits):
    """All bits of a word set, and all bits of every other number."""
    most = 2**bits - 1
    packs(mx.array([[most] * 8, [0, most] * 4, [most, 0] * 4, [0] * 8]), bits, 3)


@by_bits
def test_task_1_pack_is_the_order_of_mlx(bits):
    """MLX quantizes a group of consecutive integers from 0 to themselves."""
    values = mx.concatenate([mx.array([2**bits - 1, 0]), small_numbers(4, bits, 62, dtype=mx.int32)])
    words, scales, _ = mx.quantize(values[None].astype(mx.float32), group_size=64, bits=bits)
    assert abs(scales.item()) == 1.0
    case = f"bits {bits}, values 64 of int32, seed 4"
    with noted(case):
        found = packing.pack(2**bits - 1 - values if scales.item() < 0 else values, bits)
    same_words(found, words[0], case)


def test_task_1_pack_sweep():
    for n in sizes(A=9, B=9, W=1100):
        packs(small_numbers(n.seed, bits := n.turn(4, 8), n.A, n.B, n.W * 32 // bits), bits, n.seed)


@property_test
@given(seed=st.integers(0, 99), words=st.integers(1, 9), bits=st.sampled_from([4, 8]))
def test_task_1_pack_any_numbers(seed, words, bits):
    packs(small_numbers(seed, bits, 2, words * 32 // bits), bits, seed)


@pytest.mark.parametrize("bits", [0, 2, 3, 5, 16, 32])
def test_task_1_pack_refuses_other_bits(bits):
    with raises_value_error(f"bits {bits}, values 64", str(bits)):
        packing.pack(mx.zeros(64, mx.uint32), bits)


@pytest.mark.parametrize(("count", "bits"), [(9, 4), (4, 4), (6, 8), (1, 8)])
def test_task_1_pack_refuses_words_that_are_not_full(count, bits):
    with raises_value_error(f"bits {bits}, values 2 x {count}", str(count)):
        packing.pack(mx.zeros((2, count), mx.uint32), bits)
