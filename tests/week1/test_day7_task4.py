"""Week 1, day 7, task 4: min-p."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.filters import FLAT, SHARP, in_order, min_p64, off, unlike, vocabularies

from tiny_llm import sampler
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.inputs import DTYPES
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep

MIN_P = [0.1, 0.25, 0.6]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("min_p", MIN_P)
def test_task_2_min_p_formula(min_p, dtype):
    agrees(sampler.keep_min_p, min_p64, vocabularies(1, dtype), min_p, seed=1)


@pytest.mark.parametrize("rows", [1, 2])
def test_task_2_min_p_rows(rows):
    agrees(sampler.keep_min_p, min_p64, vocabularies(2, rows=[FLAT, SHARP][:rows]), 0.25, seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_min_p_of_zero_keeps_all(dtype):
    """Even tokens whose probability is 0 in float32."""
    logits = mx.array([[200.0, 1.0, -2.0, -90.0], [0.5, 0.1, -0.3, -0.4]]).astype(dtype)
    agrees(sampler.keep_min_p, min_p64, logits, 0.0, seed=0)


def test_task_2_min_p_of_one_keeps_the_most_likely():
    """min_p 1 keeps the most likely token and its equals."""
    logits = mx.array([[1.0, 2.0, 2.0, 0.5], [-3.0, -4.0, -5.0, -6.0], [0.0, 0.0, 0.0, 0.0]])
    agrees(sampler.keep_min_p, min_p64, logits, 1.0, seed=0)


def test_task_2_min_p_float32_probabilities():
    """In float16, exp(-0.25) and min_p are the same number."""
    agrees(sampler.keep_min_p, min_p64, mx.array([[1.0, 0.75]], mx.float16), 0.77896, seed=0)


@pytest.mark.parametrize("min_p", [0.0, 0.1, 1.0])
def test_task_2_min_p_forbidden_tokens(min_p):
    logits = mx.array([[-math.inf, 1.0, -math.inf, -0.5], [-3.0, -math.inf, -math.inf, -math.inf]])
    agrees(sampler.keep_min_p, min_p64, logits, min_p, seed=0)


def test_task_2_min_p_sweep():
    for n in sweep(N=1100, V=4200):
        logits = unlike(n)
        numbers = to_float64(logits)
        shares = np.exp(numbers - numbers.max(axis=-1, keepdims=True))
        for ordered, min_p in zip(in_order(logits), (n.turn(0.1, 0.5, 0.9), 0.01), strict=True):
            agrees(sampler.keep_min_p, min_p64, ordered, off(shares, min_p, n.dtype), seed=n)


def test_task_2_min_p_mlx():
    """By MLX's own softmax."""
    logits = vocabularies(3)
    probabilities = mx.softmax(logits, axis=-1, precise=True)
    kept = mx.where(probabilities >= 0.25 * mx.max(probabilities, axis=-1, keepdims=True), logits, -math.inf)
    agrees(sampler.keep_min_p, min_p64, logits, 0.25, seed=3, expected=to_float64(kept))


def test_task_2_min_p_pytorch(pytorch):
    logits = vocabularies(4)

    def by_softmax(torch, logits, min_p):
        probabilities = torch.softmax(logits, dim=-1)
        return logits.masked_fill(probabilities < min_p * probabilities.amax(dim=-1, keepdim=True), -math.inf)

    expected = pytorch(by_softmax, logits, 0.1)
    agrees(sampler.keep_min_p, min_p64, logits, 0.1, seed=4, expected=expected)


@property_test
@given(shift=st.integers(-40, 40), min_p=st.sampled_from(MIN_P), seed=st.integers(0, 99))
def test_task_2_min_p_ignores_a_shift(shift, min_p, seed):
    """Adding a constant to all logits of a row keeps the same tokens."""
    logits = vocabularies(seed)
    stays = mx.isfinite(sampler.keep_min_p(logits + shift, min_p)).astype(mx.int32)
    case = f"which tokens are kept of float32, logits 3 x 6 plus {shift}, min_p {min_p}, seed {seed}"
    compare(stays, np.isfinite(min_p64(to_float64(logits), min_p)), mx.int32, 0.0, case, logits.size)
