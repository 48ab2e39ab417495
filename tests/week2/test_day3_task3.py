"""Week 2, day 3, task 3: min-max quantization."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.packed import KINDS, by_bits, by_group, same_triple, told, weights64

from tiny_llm.quantized import affine
from tiny_llm_course.testkit.again import non_contiguous
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def quantizes(w, group_size, bits, seed):
    """The same as MLX, bit for bit; also on a second call, and for non-contiguous weights."""
    case, before = told(w, group_size, bits, seed), to_float64(w)
    expected = mx.quantize(w, group_size=group_size, bits=bits)
    for which, given_ in (("", w), (", inputs that are not contiguous", non_contiguous(w))):
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


@pytest.mark.parametrize("kind", KINDS)
@by_bits
def test_task_3_quantize_awkward_groups(bits, kind):
    for dtype in DTYPES:
        w = KINDS[kind](normals(2)(2, 128)).astype(dtype)
        quantizes(w, 64, bits, f"weights {kind}, seed 2")


def test_task_3_quantize_defaults():
    """The defaults are groups of 64 and 4 bits."""
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
    """Zero is exact in a group that contains it, and no error exceeds a step."""
    w = normals(seed)(2, 64) + shift
    w[:, 7] = 0
    with noted(case := f"float32, w 2 x 64, bits {bits}, shift {shift}, seed {seed}"):
        found = affine.quantize(w, 64, bits)
    same_triple(found, mx.quantize(w, group_size=64, bits=bits), case)
    stands = weights64(*found, 64, bits)
    lines = (f"zero became {stands[:, 7].tolist()}",)
    if np.abs(stands[:, 7]).max() > 1e-5 or (np.abs(stands - to_float64(w)) > np.abs(to_float64(found[1]))).any():
        raise CheckFailed(Finding(Kind.VALUES, "an error exceeds a step, or zero is not exact", lines, case))


@pytest.mark.parametrize(("inputs", "group_size"), [(65, 64), (32, 64), (96, 128), (64, 128)])
def test_task_3_quantize_refuses_groups_that_are_not_full(inputs, group_size):
    with raises_value_error(f"w 2 x {inputs}, group_size {group_size}"):
        affine.quantize(mx.ones((2, inputs)), group_size, 4)


@pytest.mark.parametrize("bits", [0, 2, 16])
def test_task_3_quantize_refuses_other_bits(bits):
    with raises_value_error(f"w 2 x 64, bits {bits}", "bits"):
        affine.quantize(mx.ones((2, 64)), 64, bits)
