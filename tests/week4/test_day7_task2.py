"""Task 4.7.2, NTK-aware scaling, checked against its formula and transformers."""

import functools

import mlx.core as mx
import numpy as np
import pytest
from tests.week4.configs import frequencies_of
from tests.week4.formulas_day7 import linear64, ntk64

from tiny_llm.long_context import ntk
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.rounding import Array64, Round, exact
from tiny_llm_course.testkit.sizes import sizes as sizes_of

in_float32 = functools.partial(agrees, dtype=mx.float32)


def by_ntk(dims, base, factor, length=None, original_length=None):
    """Call the learner's program without the arguments at their defaults."""
    if length is None:
        return ntk.ntk_frequencies(dims, base, factor)
    return ntk.ntk_frequencies(dims, base, factor, length, original_length)


@pytest.mark.parametrize(
    ("dims", "base", "factor"), [(6, 300, 4), (8, 50, 2), (10, 2, 3), (4, 300, 5), (12, 10000, 8), (64, 1000000.0, 16)]
)
def test_task_2_ntk_formula(dims, base, factor):
    in_float32(by_ntk, ntk64, dims, base, factor, seed=1)


@pytest.mark.parametrize("factor", [1, 1.5, 40.3])
def test_task_2_ntk_fractional_factor(factor):
    in_float32(by_ntk, ntk64, 8, 300, factor, seed=1)


@pytest.mark.parametrize("factor", [1, 2, 4.5])
@pytest.mark.parametrize("length", [101, 150, 200, 777])
def test_task_2_ntk_dynamic(length, factor):
    """Beyond the training length of 100 positions, the base grows with the sequence."""
    in_float32(by_ntk, ntk64, 8, 300, factor, length, 100, seed=1)


@pytest.mark.parametrize("length", [0, 1, 50, 75, 99, 100])
def test_task_2_ntk_dynamic_within_training_length(length):
    """Nothing is scaled within the training length."""
    in_float32(by_ntk, ntk64, 8, 300, 4, length, 100, seed=1)


def test_task_2_ntk_original_length_alone():
    """Without a length, the factor is fixed."""

    def without_length(dims, base, factor, original_length):
        return ntk.ntk_frequencies(dims, base, factor, original_length=original_length)

    def formula(dims: int, base: float, factor: float, original_length: int, *, r: Round = exact) -> Array64:
        return ntk64(dims, base, factor, r=r)

    in_float32(without_length, formula, 8, 300, 4, 100, seed=1)


@pytest.mark.parametrize("factor", [2, 8, 11.5])
@pytest.mark.parametrize("dims", [4, 10, 64])
def test_task_2_ntk_ends(dims, factor):
    """The first pair is as in training, the last one as in interpolation."""
    found = by_ntk(dims, 300, factor)
    plain = linear64(dims, 300, 1)
    case = f"float32, dims {dims}, base 300, factor {factor}: the first and the last frequency"
    expected = np.array([plain[0], plain[-1] / factor])
    compare(found[mx.array([0, dims // 2 - 1])], expected, mx.float32, 1e-5 * expected, case, dims)


@pytest.mark.parametrize(("length", "factor"), [(60, 4.0), (100, 4.0), (150, 2.0), (400, 1.0), (450, 3.0)])
def test_task_2_ntk_transformers(length, factor, pytorch):
    """`rope_type` "dynamic", for 100 positions."""
    found = pytorch(frequencies_of, 8, 300.0, 100, {"rope_type": "dynamic", "factor": factor}, length)
    in_float32(by_ntk, ntk64, 8, 300.0, factor, length, 100, seed=1, expected=found[:-1])


REFUSED_BY_NTK = {
    "odd dims": (7, 300, 2),
    "a single pair": (2, 300, 2),
    "a factor below 1": (8, 300, 0.5),
    "a factor slightly below 1": (8, 300, 0.99),
    "a factor below 1 with a length": (8, 300, 0.5, 200, 100),
    "a factor below 1 within the training length": (8, 300, 0.5, 50, 100),
    "a length without original_length": (8, 300, 2, 100),
    "a length of 0 without original_length": (8, 300, 2, 0),
}


@pytest.mark.parametrize("why", REFUSED_BY_NTK)
def test_task_2_ntk_refuses(why):
    given_ = REFUSED_BY_NTK[why]
    names = "dims", "base", "factor", "length", "original_length"
    words = ", ".join(f"{name} {v}" for name, v in zip(names, given_, strict=False))
    with raises_value_error(words):
        mx.eval(ntk.ntk_frequencies(*given_))


def test_task_2_ntk_sweep():
    for n in sizes_of(P=131, L=4200):
        dims, base, factor = 2 * n.P + 2, n.turn(10000, 50, 1e6, 2, 300.0), n.turn(4, 1, 8.5, 32, 1.25, 3)
        in_float32(by_ntk, ntk64, dims, base, factor, seed=n)
        in_float32(by_ntk, ntk64, dims, base, factor, n.L, n.turn(7, 64, 1000), seed=n)
