"""Task 4.7.3, YaRN, checked against its formula and transformers."""

import functools

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.configs import frequencies_of
from tests.week4.formulas_day7 import attention_factor64, linear64, yarn64

from tiny_llm.long_context import yarn
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes as sizes_of

in_float32 = functools.partial(agrees, dtype=mx.float32)


def of_yarn(*args, **kwargs):
    """Return the learner's two results: frequencies and factor."""
    found = yarn.yarn_frequencies(*args, **kwargs)
    words = ", ".join([*map(str, args), *(f"{name} {v}" for name, v in kwargs.items())])
    if not isinstance(found, tuple) or len(found) != 2:
        headline = f"returned {type_words(found)}, expected a tuple of frequencies and a number"
        fail(Kind.TYPE, headline, words)
    if isinstance(found[1], bool) or not isinstance(found[1], int | float):
        headline = f"the attention factor is {type_words(found[1])}, expected a Python float"
        fail(Kind.TYPE, headline, words)
    return found


def yarn_paces(dims, base, factor, original_length, beta_fast=32, beta_slow=1, truncate=True):
    """Return the learner's frequencies, called without the arguments at their defaults."""
    options = {"beta_fast": (beta_fast, 32), "beta_slow": (beta_slow, 1), "truncate": (truncate, True)}
    changed = {name: value for name, (value, default) in options.items() if value != default}
    return of_yarn(dims, base, factor, original_length, **changed)[0]


@pytest.mark.parametrize(
    ("dims", "base", "factor", "original_length"),
    [(32, 10000, 4, 2048), (64, 1000000.0, 8, 512), (128, 1000000.0, 4, 32768), (16, 300, 2.5, 700)],
)
def test_task_3_yarn_formula(dims, base, factor, original_length):
    in_float32(yarn_paces, yarn64, dims, base, factor, original_length, seed=1)


@pytest.mark.parametrize(("beta_fast", "beta_slow"), [(32, 4), (8, 1), (16, 0.5), (4, 0.25), (2.5, 2)], ids=str)
def test_task_3_yarn_betas(beta_fast, beta_slow):
    in_float32(yarn_paces, yarn64, 64, 10000, 8, 3000, beta_fast, beta_slow, seed=1)


@pytest.mark.parametrize(("beta_fast", "beta_slow"), [(32, 1), (4, 0.25), (30, 29)], ids=str)
def test_task_3_yarn_not_truncated(beta_fast, beta_slow):
    """Without truncation, the ramp starts and ends between pairs."""
    in_float32(yarn_paces, yarn64, 64, 10000, 8, 3000, beta_fast, beta_slow, False, seed=1)


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(
    ("original_length", "beta_fast", "beta_slow"),
    [(20, 32, 1), (3, 32, 1), (2000000, 32, 1), (900, 1000, 0.001), (2000000, 10, 9)],
    ids=["low below 0", "both below 0", "after the last pair", "wider than all pairs", "an empty range"],
)
def test_task_3_yarn_limits(original_length, beta_fast, beta_slow, truncate):
    """low is at least 0, high at most dims - 1, and they are at least 0.001 apart."""
    in_float32(yarn_paces, yarn64, 16, 300, 4, original_length, beta_fast, beta_slow, truncate, seed=1)


def test_task_3_yarn_factor_1():
    """A factor of 1 changes nothing."""
    in_float32(yarn_paces, yarn64, 64, 300, 1, 512, seed=1)


@pytest.mark.parametrize("factor", [1, 2, 4.5, 8, 40])
def test_task_3_yarn_attention_factor(factor):
    found = of_yarn(64, 10000, factor, 2048)[1]
    expected = np.array([attention_factor64(factor)])
    case = f"dims 64, base 10000, factor {factor}, original_length 2048: the attention factor"
    compare(mx.array([float(found)]), expected, mx.float32, 1e-6, case, 1)


@pytest.mark.parametrize("original_length", [512, 4096])
@pytest.mark.parametrize("truncate", [True, False])
def test_task_3_yarn_transformers(truncate, original_length, pytorch):
    options = {"beta_fast": 16.0, "beta_slow": 2.0, "truncate": truncate}
    table = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": original_length, **options}
    found = pytorch(frequencies_of, 64, 10000.0, 4 * original_length, table, 1)
    args = 64, 10000.0, 4.0, original_length, 16.0, 2.0, truncate
    in_float32(yarn_paces, yarn64, *args, seed=1, expected=found[:-1])
    case = f"factor 4, original_length {original_length}: the attention factor"
    compare(mx.array([float(of_yarn(*args)[1])]), found[-1:], mx.float32, 1e-6, case, 1)


@property_test
@given(pairs=st.integers(4, 40), factor=st.integers(2, 16), original_length=st.integers(200, 9000))
def test_task_3_yarn_between_kept_and_divided(pairs, factor, original_length):
    """No frequency is higher than in training, and none lower than in interpolation."""
    dims = 2 * pairs
    found = to_float64(yarn_paces(dims, 10000, factor, original_length))
    plain = linear64(dims, 10000, 1)
    case = f"dims {dims}, base 10000, factor {factor}, original_length {original_length}: frequencies within that range"
    expected = np.clip(found, plain / factor, plain)
    compare(mx.array(found), expected, mx.float32, 1e-5 * plain, case, dims)


@pytest.mark.parametrize(
    ("dims", "factor"),
    [(7, 2), (8, 0.5), (8, 0.99), (8, 0)],
    ids=["odd dims", "a factor below 1", "a factor slightly below 1", "a factor of 0"],
)
def test_task_3_yarn_refuses(dims, factor):
    with raises_value_error(f"dims {dims}, base 300, factor {factor}, original_length 100"):
        mx.eval(yarn.yarn_frequencies(dims, 300, factor, 100)[0])


def test_task_3_yarn_sweep():
    for n in sizes_of(P=131, T=4200):
        base, factor = n.turn(10000, 50, 1e6, 20, 300.0), n.turn(4, 1, 8.5, 32, 1.25, 3)
        betas = n.turn((32, 1), (16.5, 0.7), (3, 2.2), (100, 0.1))
        in_float32(yarn_paces, yarn64, 2 * n.P, base, factor, n.T, *betas, n.turn(True, False), seed=n)
