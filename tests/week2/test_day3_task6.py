"""Week 2, day 3, task 6: quantized linear layer.

The oracle is the float64 product with the dequantized weights: MLX's half-precision product is not accurate on a
CPU.
"""

import mlx.core as mx
import mlx.nn as nn
import pytest
from tests.week2.packed import Words, by_bits, by_group, linear64, quantized, weights64

from tiny_llm.quantized import layers
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import peak_bytes
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


@built
def linear(x, bias, triple, group_size=64, bits=4):
    layer = layers.QuantizedLinear(*triple, group_size, bits, bias)
    return lambda x: layer(x)


def multiplies(seed, leading, outputs, groups, group_size, bits, dtype, scales=None, bias=True, spread=1.0, told=None):
    triple = Words(quantized(seed, outputs, groups * group_size, group_size, bits, scales or dtype))
    x = normals(seed + 1, dtype)(*leading, groups * group_size) * spread
    own = normals(seed + 2, scales or dtype)(outputs) * spread if bias else None
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
    """x may differ in dtype from scales and bias; the result has x's."""
    multiplies(3, (2, 3), 5, 2, 64, 4, dtype, scales, bias=False)
    multiplies(3, (2, 3), 5, 2, 64, 4, dtype, scales)


@by_dtype
def test_task_6_linear_adds_in_float32(dtype):
    """Rows of 4,096 weights: the error of a half-precision sum is far larger than the rounding of its result."""
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
    """A call allocates less than half of the 2 MB of the float32 matrix, and so do the constructor and the first."""
    triple = Words(quantized(8, 1024, 512, 64, 4))
    x = normals(8)(1, 512)
    mx.eval(x, *triple)
    with noted(case := f"float32, x 1 x 512, {triple}, seed 8"):
        layer = layers.QuantizedLinear(*triple)
        mx.eval(layer(x))
        taken = peak_bytes(lambda: layer(x))
        taken_by_both = peak_bytes(lambda: layers.QuantizedLinear(*triple)(x))
    for what, size in (("one call takes", taken), ("the constructor and a call take", taken_by_both)):
        if size > 1024 * 512 * 4 // 2:
            headline = f"{what} {size / 1e6:.1f} MB: the whole matrix is dequantized"
            raise CheckFailed(Finding(Kind.VALUES, headline, ("at most   1 MB",), case))


def test_task_6_linear_sweep():
    for n in sweep(N=130, O=130, G=9):
        group_size, bits = n.turn(64, 32, 128), n.turn(4, 8)
        multiplies(
            n.seed, (n.N,), n.O, n.G, group_size, bits, n.dtype, bias=n.turn(True, False), spread=n.spread, told=n
        )


@pytest.mark.parametrize("inputs", [1, 64, 256])
def test_task_6_linear_refuses_x_of_another_width(inputs):
    """Includes an x that would broadcast."""
    triple = Words(quantized(10, 3, 128, 64, 4))
    layer = layers.QuantizedLinear(*triple)
    with raises_value_error(f"float32, x 2 x {inputs}, {triple}"):
        mx.eval(layer(mx.ones((2, inputs))))


@pytest.mark.parametrize(("group_size", "bits"), [(32, 4), (128, 4), (64, 8)])
def test_task_6_linear_refuses_parts_that_do_not_fit(group_size, bits):
    """Words and scales for 256 weights per row, with a group_size or bits that does not fit."""
    triple = quantized(9, 3, 256, 64, 4)
    words = (str(256 * 4 // bits), str(4 * group_size))
    with raises_value_error(f"packed 3 x 32, scales 3 x 4, group_size {group_size}, bits {bits}", *words):
        layers.QuantizedLinear(*triple, group_size, bits)
