"""Task 4.7.1, position interpolation, checked against its formula, `mx.fast.rope` and transformers."""

import functools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.configs import frequencies_of
from tests.week4.formulas_day7 import linear64

from tiny_llm.long_context import interpolation
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import EPSILON, Array64, Round, exact, to_float64
from tiny_llm_course.testkit.sizes import sizes as sizes_of

in_float32 = functools.partial(agrees, dtype=mx.float32)


def linear(dims, base, factor):
    return interpolation.linear_frequencies(dims, base, factor)


@pytest.mark.parametrize(
    ("dims", "base", "factor"), [(6, 300, 4), (8, 50, 2), (10, 2, 3), (2, 300, 5), (12, 10000, 8), (64, 1000000.0, 16)]
)
def test_task_1_linear_formula(dims, base, factor):
    in_float32(linear, linear64, dims, base, factor, seed=1)


@pytest.mark.parametrize("factor", [1.5, 2.75, 40.3])
def test_task_1_linear_fractional_factor(factor):
    in_float32(linear, linear64, 8, 300, factor, seed=1)


@pytest.mark.parametrize("dims", [2, 8, 64])
def test_task_1_linear_factor_1(dims):
    """Without scaling, the frequencies are RoPE's."""
    in_float32(linear, linear64, dims, 300, 1, seed=1)


def test_task_1_linear_mlx():
    """`mx.fast.rope` multiplies positions by a scale: 1 / factor. It rotates (1, 0) to (cos, sin) of the angle."""

    def directions(dims, base, factor):
        angles = mx.arange(7)[:, None] * linear(dims, base, factor)
        return mx.stack([mx.cos(angles), mx.sin(angles)], axis=-1)

    def directions64(dims: int, base: float, factor: float, *, r: Round = exact) -> Array64:
        angles = r(np.outer(np.arange(7), linear64(dims, base, factor, r=r)))
        return np.stack([r(np.cos(angles)), r(np.sin(angles))], axis=-1)

    ones = mx.broadcast_to(mx.array([1.0, 0.0]), (7, 3, 2)).reshape(1, 1, 7, 6)
    turned = mx.fast.rope(ones, 6, traditional=True, base=300.0, scale=0.25, offset=0)
    in_float32(directions, directions64, 6, 300, 4, seed=1, expected=to_float64(turned).reshape(7, 3, 2))


@pytest.mark.parametrize(("dims", "factor"), [(8, 4.0), (64, 2.5)])
def test_task_1_linear_transformers(dims, factor, pytorch):
    found = pytorch(frequencies_of, dims, 300.0, 100, {"rope_type": "linear", "factor": factor}, 100)
    in_float32(linear, linear64, dims, 300.0, factor, seed=1, expected=found[:-1])


@property_test
@given(pairs=st.integers(1, 9), base=st.integers(2, 2000), factor=st.integers(1, 9), position=st.integers(0, 50))
def test_task_1_linear_positions_are_squeezed(pairs, base, factor, position):
    """Position factor * p has the angles of the unscaled model's position p."""
    case = f"float32, dims {2 * pairs}, base {base}, factor {factor}: position {factor * position}"
    expected = position * linear64(2 * pairs, base, 1)
    angles = factor * position * linear(2 * pairs, base, factor)
    compare(angles, expected, mx.float32, 8 * EPSILON[mx.float32] * max(position, 1), case, pairs)


REFUSED = {"odd dims": (7, 300, 2), "a factor below 1": (8, 300, 0.5), "a factor of 0": (8, 300, 0)}
REFUSED |= {"a factor slightly below 1": (8, 300, 0.99), "a negative factor": (8, 300, -2)}


@pytest.mark.parametrize("why", REFUSED)
def test_task_1_linear_refuses(why):
    dims, base, factor = REFUSED[why]
    with raises_value_error(f"dims {dims}, base {base}, factor {factor}"):
        mx.eval(linear(dims, base, factor))


def test_task_1_linear_sweep():
    for n in sizes_of(P=131):
        in_float32(linear, linear64, 2 * n.P, n.turn(10000, 50, 1e6, 2, 300.0), n.turn(4, 1, 8.5, 32, 1.25, 3), seed=n)
