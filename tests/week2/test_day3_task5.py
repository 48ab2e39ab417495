"""Week 2, day 3, task 5: least-squares quantization."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.packed import KINDS, by_bits, by_group, errors64, same_triple, told

from tiny_llm.quantized import least_squares
from tiny_llm_course.testkit.cases import dtype_word, noted, shape_words, type_words
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def laid_out(w, group_size, bits, case):
    """Check the layout of the learner's result, and return its errors per group."""
    before = to_float64(w)
    with noted(case):
        found = least_squares.quantize_least_squares(w, group_size, bits)
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
    return errors64(w, found, group_size, bits), found


def best_numbers(w, found, group_size, bits):
    """Return each group's error with the scale and bias that were found, and the nearest level's q for each weight."""
    scale, bias = (to_float64(x)[..., None] for x in found[1:])
    groups = to_float64(w).reshape(*scale.shape[:-1], group_size)
    q = np.clip(np.round((groups - bias) / np.where(scale == 0, 1, scale)), 0, 2**bits - 1)
    return np.square(groups - (scale * q + bias)).sum(-1)


def no_group_is_worse(w, group_size, bits, seed):
    case = told(w, group_size, bits, seed)
    errors, found = laid_out(w, group_size, bits, case)
    before = errors64(w, mx.quantize(w, group_size=group_size, bits=bits), group_size, bits)
    allowed = before * (1 + 1e-4) + 1e-11 * np.square(to_float64(w)).reshape(*before.shape, -1).sum(-1)
    worse = np.argwhere(~(errors <= allowed))
    if len(worse):
        at = tuple(map(int, worse[0]))
        some = "groups have" if len(worse) > 1 else "groups has"
        headline = f"{len(worse)} of {errors.size} {some} a larger error than by min-max, first {list(at)}"
        least = best_numbers(w, found, group_size, bits)[at]
        lines = (f"at most   {before[at]:.6g}", f"got       {errors[at]:.6g}")
        top, dtype = 2**bits - 1, dtype_word(w.dtype)
        if least <= allowed[at]:
            lines += (f"q         not the nearest level's (0 to {top}): with it, your scale and bias give {least:.6g}",)
        elif errors[at] <= least * (1 + 1e-9):
            lines += (f"q         the nearest level's for each weight: your scale or bias, in {dtype}, is at fault",)
        raise CheckFailed(Finding(Kind.VALUES, headline, lines, case, w.size))
    return errors, before


@by_dtype
@by_bits
@by_group
def test_task_5_least_squares_no_group_is_worse(group_size, bits, dtype):
    no_group_is_worse(normals(1, dtype)(20, 2 * group_size), group_size, bits, "seed 1")


@pytest.mark.parametrize("kind", KINDS)
@by_bits
def test_task_5_least_squares_awkward_groups(bits, kind):
    for dtype in DTYPES:
        w = KINDS[kind](normals(2)(2, 128)).astype(dtype)
        no_group_is_worse(w, 64, bits, f"weights {kind}, seed 2")


@by_dtype
def test_task_5_least_squares_is_smaller(dtype):
    """For normally distributed groups, with 4 bits."""
    w = normals(3, dtype)(400, 64)
    errors, before = no_group_is_worse(w, 64, 4, "seed 3")
    if errors.sum() > 0.92 * before.sum():
        lines = (f"at most   {0.92 * before.sum():.5g}", f"got       {errors.sum():.5g}")
        headline = "the total error is more than 0.92 of the min-max error"
        raise CheckFailed(Finding(Kind.VALUES, headline, lines, told(w, 64, 4, "seed 3"), w.size))


def test_task_5_least_squares_defaults():
    w = normals(4)(3, 128)
    with noted(case := "float32, w 3 x 128, no group_size and no bits, seed 4"):
        found = least_squares.quantize_least_squares(w)
    expected = least_squares.quantize_least_squares(w, 64, 4)
    same_triple(found, expected, case)


@property_test
@given(seed=st.integers(0, 99), spread=st.sampled_from([1e-6, 0.02, 1, 1000]), shift=st.sampled_from([0, 0.5, -2]))
def test_task_5_least_squares_any_weights(seed, spread, shift):
    no_group_is_worse((normals(seed)(4, 64) + shift) * spread, 64, 4, f"seed {seed}")


def test_task_5_least_squares_sweep():
    for n in sweep(A=130, G=9):
        group_size, bits = n.turn(64, 32, 128), n.turn(4, 8)
        w = normals(n.seed, n.dtype)(n.A, n.G * group_size) * n.spread
        no_group_is_worse(w, group_size, bits, f"seed {n.seed}")


@pytest.mark.parametrize(("inputs", "group_size"), [(65, 64), (32, 64), (96, 64), (64, 128)])
def test_task_5_least_squares_refuses_groups_that_are_not_full(inputs, group_size):
    with raises_value_error(f"w 2 x {inputs}, group_size {group_size}", str(inputs), str(group_size)):
        least_squares.quantize_least_squares(mx.ones((2, inputs)), group_size, 4)


@pytest.mark.parametrize("bits", [0, 2, 16])
def test_task_5_least_squares_refuses_other_bits(bits):
    with raises_value_error(f"w 2 x 64, bits {bits}", str(bits)):
        least_squares.quantize_least_squares(mx.ones((2, 64)), 64, bits)
