"""Week 2, day 3: packing, affine quantization, the least error, layers of packed weights, perplexity.

Words, scales and biases are held to those of MLX bit for bit. Products are held to the weights that quantized ones
stand for, in float64: MLX's own product in a half dtype is no oracle on a CPU.
"""

import itertools

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.packed import (
    TableModel,
    errors64,
    halves,
    halves64,
    numbers64,
    perplexity64,
    same_triple,
    same_words,
    weights64,
)

from tiny_llm.quantized import affine, layers, least_error, packing, perplexity
from tiny_llm_course.testkit.again import built, spread_out
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted, shape_words, type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.memory import most_at_once
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import EPSILON, FACTOR, exact, to_float64
from tiny_llm_course.testkit.sizes import sizes, sweep

by_bits = pytest.mark.parametrize("bits", [4, 8])
by_group = pytest.mark.parametrize("group_size", [32, 64, 128])
by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def small_numbers(seed, bits, *shape, dtype=mx.uint32):
    return mx.array(np.random.default_rng(seed).integers(0, 2**bits, shape).astype(np.uint32)).astype(dtype)


def words_of(values, bits):
    """The words, by NumPy."""
    low, high = np.moveaxis(halves64(np.array(values).astype(np.float64), bits), -1, 0)
    return mx.array((low + 65536 * high).astype(np.uint32))


# Task 1, pack


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
    """Also of one byte, which is shorter than a word. Those of an int8 do not reach 255."""
    packs(small_numbers(2, bits, 2, 16, dtype=dtype), bits, 2)


@by_bits
def test_task_1_pack_largest(bits):
    """Every bit of a word is one, and every other number's bits."""
    most = 2**bits - 1
    packs(mx.array([[most] * 8, [0, most] * 4, [most, 0] * 4, [0] * 8]), bits, 3)


@by_bits
def test_task_1_pack_is_the_order_of_mlx(bits):
    """A group of numbers from 0 on, one apart, is what MLX quantizes to them."""
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


# Task 2, unpack


def unpacked(halves_, bits=4):
    """From halves, as the formula takes them: a float64 holds a word, but not the float32 before it."""
    low, high = halves_[..., 0].astype(mx.uint32), halves_[..., 1].astype(mx.uint32)
    found = packing.unpack(low | (high << 16), bits)
    if type(found) is mx.array and found.dtype == mx.uint32:
        return found.astype(mx.float32)
    what = dtype_word(found.dtype) if type(found) is mx.array else type_words(found)
    raise CheckFailed(
        Finding(Kind.DTYPE, f"the numbers are {what}, expected an mx.array of uint32", (), f"bits {bits}")
    )


def unpacks(words, bits, seed):
    agrees(unpacked, numbers64, halves(words), bits, seed=seed)


def any_words(seed, *shape):
    return mx.array(np.random.default_rng(seed).integers(0, 2**32, shape, np.uint32))


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
def test_task_2_unpack_what_mlx_has_packed(bits):
    """What it stands for, by MLX: with scales of 1 and biases of 0 that is the numbers."""
    words = any_words(3, 3, 16)
    ones = mx.ones((3, 16 * 32 // bits // 64))
    expected = to_float64(mx.dequantize(words, ones, mx.zeros_like(ones), group_size=64, bits=bits))
    agrees(unpacked, numbers64, halves(words), bits, seed=3, expected=expected)


def test_task_2_unpack_sweep():
    for n in sizes(A=9, B=9, W=1100):
        unpacks(any_words(n.seed, n.A, n.B, n.W), n.turn(4, 8), n.seed)


@pytest.mark.parametrize("bits", [0, 2, 3, 5, 16, 32])
def test_task_2_unpack_refuses_other_bits(bits):
    with raises_value_error(f"bits {bits}, packed 4", str(bits)):
        packing.unpack(mx.zeros(4, mx.uint32), bits)


# Task 3, quantize


def told(w, group_size, bits, seed):
    return f"{dtype_word(w.dtype)}, w {shape_words(w.shape)}, group_size {group_size}, bits {bits}, {seed}"


def quantizes(w, group_size, bits, seed):
    """The same as MLX, bit for bit; also once more, and of weights that are not contiguous."""
    case, before = told(w, group_size, bits, seed), to_float64(w)
    expected = mx.quantize(w, group_size=group_size, bits=bits)
    for which, given_ in (("", w), (", inputs that are not contiguous", spread_out(w))):
        with noted(case + which):
            found = affine.quantize(given_, group_size, bits)
        same_triple(found, expected, case + which)
    if not np.array_equal(before, to_float64(w)):
        raise CheckFailed(Finding(Kind.INPUT_CHANGED, "the caller's `w` was changed", (), case))


@by_dtype
@by_bits
@by_group
def test_task_3_quantize_mlx(group_size, bits, dtype):
    quantizes(normals(1, dtype)(3, 2 * group_size), group_size, bits, "seed 1")


KINDS = {
    "zeros": lambda x: 0 * x,
    "one number": lambda x: 0 * x + 0.7,
    "one negative number": lambda x: 0 * x - 0.7,
    "above zero": lambda x: mx.abs(x) + 0.5,
    "below zero": lambda x: -mx.abs(x) - 0.5,
    "far from zero": lambda x: 0.01 * x + 5,
    "far below zero": lambda x: 0.01 * x - 5,
    "ends equally far from zero": lambda x: mx.sign(x),
    "halves of steps": lambda x: mx.round(x * 4) / 4,
    "next to nothing": lambda x: 1e-9 * x,
    "large": lambda x: 1000 * x,
    "one of a thousand": lambda x: mx.where(x == mx.max(x, axis=-1, keepdims=True), 1000, x),
    "one of minus a thousand": lambda x: mx.where(x == mx.min(x, axis=-1, keepdims=True), -1000, x),
}


@pytest.mark.parametrize("kind", KINDS)
@by_bits
def test_task_3_quantize_awkward_groups(bits, kind):
    for dtype in DTYPES:
        w = KINDS[kind](normals(2)(2, 128)).astype(dtype)
        quantizes(w, 64, bits, f"weights {kind}, seed 2")


def test_task_3_quantize_defaults():
    """Groups of 64 and 4 bits, if nothing is said."""
    w = normals(3)(2, 128)
    with noted(case := "float32, w 2 x 128, no group_size and no bits, seed 3"):
        found = affine.quantize(w)
    same_triple(found, mx.quantize(w, group_size=64, bits=4), case)


def test_task_3_quantize_sweep():
    for n in sweep(A=130, G=9):
        group_size, bits = n.turn(64, 32, 128), n.turn(4, 8)
        quantizes(normals(n.seed, n.dtype)(n.A, n.G * group_size) * n.spread, group_size, bits, f"seed {n.seed}")


@property_test
@given(seed=st.integers(0, 99), shift=st.sampled_from([0, 1, -1, 3, -3]), bits=st.sampled_from([4, 8]))
def test_task_3_quantize_half_a_step(seed, shift, bits):
    """Zero is kept where a group goes through it, and no weight is off by more than a step."""
    w = normals(seed)(2, 64) + shift
    w[:, 7] = 0
    with noted(case := f"float32, w 2 x 64, bits {bits}, shift {shift}, seed {seed}"):
        found = affine.quantize(w, 64, bits)
    same_triple(found, mx.quantize(w, group_size=64, bits=bits), case)
    stands = weights64(*found, 64, bits)
    lines = (f"zero became {stands[:, 7].tolist()}",)
    if np.abs(stands[:, 7]).max() > 1e-5 or (np.abs(stands - to_float64(w)) > np.abs(to_float64(found[1]))).any():
        raise CheckFailed(Finding(Kind.VALUES, "a weight is off by more than a step, or zero is not kept", lines, case))


@pytest.mark.parametrize(("inputs", "group_size"), [(65, 64), (32, 64), (96, 128), (64, 128)])
def test_task_3_quantize_refuses_groups_that_are_not_full(inputs, group_size):
    with raises_value_error(f"w 2 x {inputs}, group_size {group_size}", str(inputs), str(group_size)):
        affine.quantize(mx.ones((2, inputs)), group_size, 4)


@pytest.mark.parametrize("bits", [0, 2, 16])
def test_task_3_quantize_refuses_other_bits(bits):
    with raises_value_error(f"w 2 x 64, bits {bits}", str(bits)):
        affine.quantize(mx.ones((2, 64)), 64, bits)


# Task 4, dequantize


@built
def dequantized(scales, biases, packed, group_size=64, bits=4):
    return lambda scales, biases: affine.dequantize(packed, scales, biases, group_size, bits)


def dequantizing(packed, group_size, bits):
    """The formula for these words: a float64 of the test kit cannot hold them."""

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
    with raises_value_error(f"packed 2 x 8, bits {bits}", str(bits)):
        affine.dequantize(mx.zeros((2, 8), mx.uint32), mx.ones((2, 1)), mx.ones((2, 1)), 64, bits)


# Task 5, quantize with the least error


def laid_out(w, group_size, bits, case):
    """What the learner's program gives, in the layout of `quantize`, and its errors group by group."""
    before = to_float64(w)
    with noted(case):
        found = least_error.quantize_with_least_error(w, group_size, bits)
    if not isinstance(found, tuple) or len(found) != 3:
        raise CheckFailed(Finding(Kind.TYPE, f"returned {type_words(found)}, expected a tuple of three", (), case))
    groups = (*w.shape[:-1], w.shape[-1] // group_size)
    wanted = [("packed", (*w.shape[:-1], w.shape[-1] * bits // 32), mx.uint32)]
    wanted += [(name, groups, w.dtype) for name in ("scales", "biases")]
    for (name, shape, dtype), actual in zip(wanted, found, strict=True):
        if type(actual) is not mx.array or (actual.shape, actual.dtype) != (shape, dtype):
            seen = (
                f"{shape_words(actual.shape)}, {dtype_word(actual.dtype)}"
                if type(actual) is mx.array
                else type_words(actual)
            )
            lines = (f"expected  {shape_words(shape)}, {dtype_word(dtype)}", f"got       {seen}")
            raise CheckFailed(Finding(Kind.SHAPE, f"wrong shape or dtype of {name}", lines, case, w.size))
    if not np.array_equal(before, to_float64(w)):
        raise CheckFailed(Finding(Kind.INPUT_CHANGED, "the caller's `w` was changed", (), case))
    return errors64(w, found, group_size, bits)


def no_group_is_worse(w, group_size, bits, seed):
    case = told(w, group_size, bits, seed)
    errors = laid_out(w, group_size, bits, case)
    before = errors64(w, mx.quantize(w, group_size=group_size, bits=bits), group_size, bits)
    allowed = before * (1 + 1e-4) + 1e-11 * np.square(to_float64(w)).reshape(*before.shape, -1).sum(-1)
    worse = np.argwhere(~(errors <= allowed))
    if len(worse):
        at = tuple(map(int, worse[0]))
        headline = f"{len(worse)} of {errors.size} groups have a larger error than by min and max, first {list(at)}"
        lines = (f"at most   {before[at]:.6g}", f"got       {errors[at]:.6g}")
        raise CheckFailed(Finding(Kind.VALUES, headline, lines, case, w.size))
    return errors, before


@by_dtype
@by_bits
@by_group
def test_task_5_least_error_no_group_is_worse(group_size, bits, dtype):
    no_group_is_worse(normals(1, dtype)(20, 2 * group_size), group_size, bits, "seed 1")


@pytest.mark.parametrize("kind", KINDS)
@by_bits
def test_task_5_least_error_awkward_groups(bits, kind):
    for dtype in DTYPES:
        w = KINDS[kind](normals(2)(2, 128)).astype(dtype)
        no_group_is_worse(w, 64, bits, f"weights {kind}, seed 2")


@by_dtype
def test_task_5_least_error_is_smaller(dtype):
    """Of groups from a normal distribution, with 4 bits."""
    w = normals(3, dtype)(400, 64)
    errors, before = no_group_is_worse(w, 64, 4, "seed 3")
    if errors.sum() > 0.92 * before.sum():
        lines = (f"at most   {0.92 * before.sum():.5g}", f"got       {errors.sum():.5g}")
        headline = "the error of all groups is more than 0.92 of what it is by min and max"
        raise CheckFailed(Finding(Kind.VALUES, headline, lines, told(w, 64, 4, "seed 3"), w.size))


def test_task_5_least_error_defaults():
    w = normals(4)(3, 128)
    with noted(case := "float32, w 3 x 128, no group_size and no bits, seed 4"):
        found = least_error.quantize_with_least_error(w)
    expected = least_error.quantize_with_least_error(w, 64, 4)
    same_triple(found, expected, case)


@property_test
@given(seed=st.integers(0, 99), spread=st.sampled_from([1e-6, 0.02, 1, 1000]), shift=st.sampled_from([0, 0.5, -2]))
def test_task_5_least_error_any_weights(seed, spread, shift):
    no_group_is_worse((normals(seed)(4, 64) + shift) * spread, 64, 4, f"seed {seed}")


def test_task_5_least_error_sweep():
    for n in sweep(A=130, G=9):
        group_size, bits = n.turn(64, 32, 128), n.turn(4, 8)
        w = normals(n.seed, n.dtype)(n.A, n.G * group_size) * n.spread
        no_group_is_worse(w, group_size, bits, f"seed {n.seed}")


def test_task_5_least_error_refuses_groups_that_are_not_full():
    with raises_value_error("w 2 x 96, group_size 64", "96", "64"):
        least_error.quantize_with_least_error(mx.ones((2, 96)), 64, 4)


# Task 6, a linear layer


def quantized(seed, outputs, inputs, group_size, bits, dtype=mx.float32, spread=1.0):
    w = normals(seed, dtype)(outputs, inputs, spread=inputs**-0.5) * spread
    return mx.quantize(w, group_size=group_size, bits=bits)


@built
def linear(x, bias, triple, group_size=64, bits=4):
    layer = layers.QuantizedLinear(*triple, group_size, bits, bias)
    return lambda x: layer(x)


class Words(tuple[mx.array, ...]):
    """Quantized weights as a case names them; `backwards`: others of the same shapes."""

    def __str__(self):
        packed, scales, _ = self
        return f"packed {shape_words(packed.shape)}, scales {shape_words(scales.shape)} of {dtype_word(scales.dtype)}"

    def backwards(self):
        return Words(x[::-1] for x in self)


def linear64(x, bias, triple, group_size=64, bits=4, *, r=exact):
    """x @ W.T, products and sums in float32, rounded once to x's dtype; then the bias."""
    y = r(x @ weights64(*triple, group_size, bits).T)
    return y if bias is None else r(y + bias)


def multiplies(seed, leading, outputs, groups, group_size, bits, dtype, scales=None, bias=True, spread=1.0, told=None):
    triple = Words(quantized(seed, outputs, groups * group_size, group_size, bits, scales or dtype))
    x = normals(seed + 1, dtype)(*leading, groups * group_size) * spread
    own = normals(seed + 2, dtype)(outputs) * spread if bias else None
    agrees(linear, linear64, x, own, triple, group_size, bits, seed=seed if told is None else told)


@by_dtype
@by_bits
@by_group
def test_task_6_linear_formula(group_size, bits, dtype):
    """Also without a bias."""
    multiplies(1, (2, 3), 5, 2, group_size, bits, dtype)
    multiplies(1, (2, 3), 5, 2, group_size, bits, dtype, bias=False)


@pytest.mark.parametrize("leading", [(), (1,), (3,), (2, 1), (2, 3, 2)], ids=str)
def test_task_6_linear_any_shape(leading):
    multiplies(2, leading, 7, 3, 32, 4, mx.float32)


@pytest.mark.parametrize("scales", DTYPES, ids=str)
@by_dtype
def test_task_6_linear_other_scales(dtype, scales):
    """x and the scales have dtypes of their own; what comes out has x's."""
    multiplies(3, (2, 3), 5, 2, 64, 4, dtype, scales, bias=False)


@by_dtype
def test_task_6_linear_adds_in_float32(dtype):
    """Rows of 4,096 weights: a sum in a half dtype is off by far more than the rounding of its result."""
    multiplies(4, (2,), 3, 64, 64, 4, dtype, bias=False)


def test_task_6_linear_mlx():
    triple = Words(quantized(5, 5, 128, 64, 4))
    x, own = normals(5)(2, 3, 128), normals(6)(5)
    expected = nn.QuantizedLinear(128, 5, bias=True, group_size=64, bits=4)
    expected.weight, expected.scales, expected.biases = triple
    expected.bias = own
    agrees(linear, linear64, x, own, triple, 64, 4, seed=5, expected=to_float64(expected(x)))


def test_task_6_linear_defaults():
    triple = Words(quantized(7, 5, 128, 64, 4))
    x = normals(7)(2, 128)
    with noted(case := f"float32, x 2 x 128, {triple}, no group_size, no bits and no bias, seed 7"):
        found = layers.QuantizedLinear(*triple)(x)
    expected = to_float64(x) @ weights64(*triple, 64, 4).T
    compare(found, expected, mx.float32, 1e-4, case, expected.size)


def test_task_6_linear_stays_packed():
    """A call holds less than the matrix in float32 would take: 2 MB of it."""
    triple = Words(quantized(8, 1024, 512, 64, 4))
    x = normals(8)(1, 512)
    with noted(case := f"float32, x 1 x 512, {triple}, seed 8"):
        layer = layers.QuantizedLinear(*triple)
        mx.eval(layer(x))
        taken = most_at_once(lambda: layer(x))
    if taken > 1024 * 512 * 4 // 2:
        headline = f"one call takes {taken / 1e6:.1f} MB: the matrix is dequantized as a whole"
        raise CheckFailed(Finding(Kind.VALUES, headline, ("at most   1 MB",), case))


def test_task_6_linear_sweep():
    for n in sweep(N=130, O=130, G=9):
        group_size, bits = n.turn(64, 32, 128), n.turn(4, 8)
        multiplies(
            n.seed, (n.N,), n.O, n.G, group_size, bits, n.dtype, bias=n.turn(True, False), spread=n.spread, told=n
        )


@pytest.mark.parametrize(("group_size", "bits"), [(32, 4), (128, 4), (64, 8)])
def test_task_6_linear_refuses_parts_that_do_not_fit(group_size, bits):
    """Words and scales of 256 weights a row, as they would be in another layout."""
    triple = quantized(9, 3, 256, 64, 4)
    words = (str(256 * 4 // bits), str(4 * group_size))
    with raises_value_error(f"packed 3 x 32, scales 3 x 4, group_size {group_size}, bits {bits}", *words):
        layers.QuantizedLinear(*triple, group_size, bits)


# Task 7, an embedding


@built
def looked_up(scales, tokens, triple, group_size=64, bits=4, dtype=None):
    table = layers.QuantizedEmbedding(triple[0], scales, triple[2], group_size, bits, dtype)
    return lambda tokens: table(tokens)


def looked_up64(scales, tokens, triple, group_size=64, bits=4, dtype=None, *, r=exact):
    table = weights64(triple[0], mx.array(scales.astype(np.float32)), triple[2], group_size, bits)
    return r(table)[np.array(tokens).astype(int)]


def looks_up(seed, dtype, shape, group_size, bits, vocab=11, groups=2, wanted=None):
    triple = Words(quantized(seed, vocab, groups * group_size, group_size, bits, dtype))
    tokens = mx.array(np.random.default_rng(seed).integers(0, vocab, shape).astype(np.int32))
    out = wanted or dtype
    agrees(looked_up, looked_up64, triple[1], tokens, triple, group_size, bits, wanted, seed=seed, dtype=out)


@by_dtype
@by_bits
@by_group
def test_task_7_embedding_rows(group_size, bits, dtype):
    looks_up(1, dtype, (2, 3), group_size, bits)


@pytest.mark.parametrize("shape", [(), (4,), (1, 1), (2, 3, 2)], ids=str)
def test_task_7_embedding_any_tokens(shape):
    looks_up(2, mx.float32, shape, 32, 4)


@by_dtype
@pytest.mark.parametrize("wanted", DTYPES, ids=str)
def test_task_7_embedding_dtype_that_was_asked_for(wanted, dtype):
    looks_up(3, dtype, (2, 3), 64, 4, wanted=wanted)


def test_task_7_embedding_mlx():
    triple = Words(quantized(4, 11, 128, 64, 4))
    tokens = mx.array([[3, 10, 0], [7, 7, 1]])
    rows = (x[tokens] for x in triple)
    expected = to_float64(mx.dequantize(*rows, group_size=64, bits=4))
    agrees(looked_up, looked_up64, triple[1], tokens, triple, seed=4, expected=expected)


@built
def scores(x, triple, group_size=64, bits=4):
    table = layers.QuantizedEmbedding(*triple, group_size, bits)
    return lambda x: table.as_linear(x)


def scores64(x, triple, group_size=64, bits=4, *, r=exact):
    return linear64(x, None, triple, group_size, bits, r=r)


@by_dtype
@by_bits
def test_task_7_embedding_as_linear(bits, dtype):
    for leading, group_size in itertools.product([(2, 3), (4,), ()], (32, 64)):
        triple = Words(quantized(5, 11, 2 * group_size, group_size, bits, dtype))
        x = normals(6, dtype)(*leading, 2 * group_size)
        agrees(scores, scores64, x, triple, group_size, bits, seed=5)


def test_task_7_embedding_adds_in_float32():
    for dtype in DTYPES:
        triple = Words(quantized(6, 3, 4096, 64, 4, mx.float16))
        agrees(scores, scores64, normals(7, dtype)(2, 4096), triple, seed=6)


def test_task_7_embedding_other_rows_stay_packed():
    """A look-up of two tokens holds less than a fiftieth of the table in float32, which has 4 MB."""
    triple = Words(quantized(8, 2048, 512, 64, 4))
    tokens = mx.array([[3, 2000]])
    with noted(case := f"float32, tokens 1 x 2, {triple}, seed 8"):
        table = layers.QuantizedEmbedding(*triple)
        mx.eval(table(tokens))
        taken = most_at_once(lambda: table(tokens))
    if taken > 2048 * 512 * 4 // 50:
        headline = f"two tokens take {taken / 1e6:.2g} MB: the whole table is dequantized"
        raise CheckFailed(Finding(Kind.VALUES, headline, ("at most   0.08 MB",), case))


def test_task_7_embedding_sweep():
    for n in sweep(L=130, V=130, G=9):
        group_size, bits = n.turn(64, 32, 128), n.turn(4, 8)
        looks_up(n.seed, n.dtype, (n.L,), group_size, bits, n.V, n.G)
        triple = Words(quantized(n.seed, n.V, n.G * group_size, group_size, bits, n.dtype))
        x = normals(n.seed + 1, n.dtype)(n.L, n.G * group_size) * n.spread
        agrees(scores, scores64, x, triple, group_size, bits, seed=n)


# Task 8, perplexity


def table(seed, vocab=7, dtype=mx.float32, spread=1.0):
    return normals(seed, dtype)(vocab, vocab) * spread


def judges(logits, texts, seed):
    lengths = ", ".join(str(len(text)) for text in texts)
    case = f"{dtype_word(logits.dtype)}, V {len(logits)}, texts of {lengths} tokens, seed {seed}"
    kept = [list(text) for text in texts]
    with noted(case):
        found = perplexity.perplexity(TableModel(logits, case), texts)
    if type(found) is not float:
        raise CheckFailed(Finding(Kind.TYPE, f"returned {type_words(found)}, expected a float", (), case))
    if texts != kept:
        raise CheckFailed(Finding(Kind.INPUT_CHANGED, "the caller's `texts` were changed", (), case))
    expected = perplexity64(to_float64(logits), texts)
    compare(
        mx.array(found), expected, mx.float32, FACTOR * EPSILON[mx.float32] * 8 * expected, case, sum(map(len, texts))
    )


@by_dtype
@pytest.mark.parametrize("lengths", [(5,), (2,), (4, 2), (9, 1, 3), (1, 2, 1)], ids=str)
def test_task_8_perplexity_formula(lengths, dtype):
    draw = np.random.default_rng(1)
    judges(table(1, dtype=dtype, spread=2.0), [draw.integers(0, 7, n).tolist() for n in lengths], 1)


def test_task_8_perplexity_long_and_short():
    """A text of 30 tokens beside one of two: each token counts alike."""
    draw = np.random.default_rng(2)
    judges(table(2, spread=3.0), [draw.integers(0, 7, n).tolist() for n in (30, 2)], 2)


@pytest.mark.parametrize("shift", [0, 500, -500])
def test_task_8_perplexity_large_logits(shift):
    """exp of such numbers is infinite or 0 in float32."""
    judges(table(3, spread=20.0) + shift, [[1, 2, 3, 4, 5, 6, 0]], 3)


def test_task_8_perplexity_all_alike():
    judges(mx.zeros((7, 7)), [[1, 2, 3], [4, 4]], 0)


def test_task_8_perplexity_impossible():
    """A token that cannot be: inf, and no error."""
    with noted(case := "a logit of 5000 for the wrong token, and one of -inf for the right one"):
        for wrong in (mx.array([[5000.0, 0.0], [5000.0, 0.0]]), mx.array([[0.0, -mx.inf], [0.0, -mx.inf]])):
            found = perplexity.perplexity(TableModel(wrong), [[0, 1, 1]])
            compare(mx.array(found), np.array(np.inf), mx.float32, 0.0, case, 3)


def test_task_8_perplexity_reads_each_text_once():
    """All of it but the last token, which nothing follows; texts with nothing to predict are not read."""
    reader = TableModel(table(4), case := "texts [1, 2, 3, 4, 5, 6], [4], [5, 6]")
    with noted(case):
        perplexity.perplexity(reader, [[1, 2, 3, 4, 5, 6], [4], [5, 6]])
    read = sum(map(len, reader.seen))
    if read > 8:  # the last one of each text may be read as well
        lines = ("at most   8", f"got       {read}, in calls of {', '.join(map(str, reader.seen))}")
        raise CheckFailed(Finding(Kind.VALUES, "more tokens are read than there are to predict from", lines, case))


def test_task_8_perplexity_sweep():
    for n in sweep(T=9, V=130, L=300):
        draw = np.random.default_rng(n.seed)
        texts = [draw.integers(0, n.V, n.L + 1).tolist() for _ in range(n.T)]
        judges(table(n.seed, n.V, n.dtype, min(n.spread, 30.0)), texts, n.seed)


@pytest.mark.parametrize("texts", [[], [[3]], [[], [1]]], ids=str)
def test_task_8_perplexity_refuses_texts_with_nothing_to_predict(texts):
    with raises_value_error(f"texts {texts}"):
        perplexity.perplexity(TableModel(table(5)), texts)
