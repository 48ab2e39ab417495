"""Week 1, day 7, task 3: top-p."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.filters import MIDDLE, SHARP, in_order, off, top_p64, unlike, vocabularies
from tests.week1.formulas import softmax64

from tiny_llm import sampler
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep

P = [0.3, 0.5, 0.7, 0.85]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("p", P)
def test_task_2_top_p_formula(p, dtype):
    agrees(sampler.keep_top_p, top_p64, vocabularies(1, dtype), p, seed=1)


@pytest.mark.parametrize("rows", [1, 2])
def test_task_2_top_p_rows(rows):
    agrees(sampler.keep_top_p, top_p64, vocabularies(2, rows=[MIDDLE, SHARP][:rows]), 0.7, seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_top_p_of_zero_keeps_the_most_likely(dtype):
    agrees(sampler.keep_top_p, top_p64, vocabularies(3, dtype), 0.0, seed=3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_top_p_of_one_keeps_all(dtype):
    """In the first row the most likely token has probability 1 in float32."""
    logits = mx.array([[30.0, 1.0, -2.0, -9.0], [0.5, 0.1, -0.3, -0.4]]).astype(dtype)
    agrees(sampler.keep_top_p, top_p64, logits, 1.0, seed=0)


def test_task_2_top_p_of_one_keeps_all_of_many():
    """A float32 sum of many probabilities may stay below 1, or pass it early."""
    agrees(sampler.keep_top_p, top_p64, normals(4)(3, 2000, spread=2.0), 1.0, seed=4)


def test_task_2_top_p_ties():
    """The smallest set is kept, even if a dropped token is as likely as a kept one; either choice is right."""
    left = mx.sum((sampler.keep_top_p(mx.array([[1.0] * 4, [-2.0] * 4]), 0.5) > -math.inf).astype(mx.int32), axis=-1)
    case = "number of tokens kept of float32, logits 2 x 4, all equal in a row, p 0.5"
    compare(left, np.array([2, 2]), mx.int32, 0.0, case, 8)


@pytest.mark.parametrize("p", [0.0, 0.5, 0.9, 1.0])
def test_task_2_top_p_forbidden_tokens(p):
    """-inf has probability 0 and stays -inf."""
    logits = mx.array([[-math.inf, 1.0, -math.inf, -0.5], [-3.0, -math.inf, -math.inf, -math.inf]])
    agrees(sampler.keep_top_p, top_p64, logits, p, seed=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shift", [-300, 300])
def test_task_2_top_p_large_logits(shift, dtype):
    """Only differences matter: all logits of a row may be large or very negative."""
    steps = mx.array([[0.0, 2.0, 4.0, 8.0, -2.0], [4.0, 2.0, 6.0, 0.0, 8.0]])
    agrees(sampler.keep_top_p, top_p64, (steps + shift).astype(dtype), 0.95, seed=0)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_top_p_many_tokens(dtype):
    """Thousands of small probabilities: a float16 or bfloat16 sum stops growing long before it reaches p."""
    logits = normals(6, dtype)(2, 5000, spread=0.3)
    result = sampler.keep_top_p(logits, 0.8)
    case = f"{dtype}, logits 2 x 5000, p 0.8, seed 6".removeprefix("mlx.core.")
    numbers, stays = to_float64(logits), to_float64(result) > -np.inf
    kept = np.where(stays, softmax64(numbers, -1), 0.0).sum(axis=-1)
    compare(mx.array(kept), np.full(2, 0.8), mx.float32, 0.001, f"sum of the probabilities kept of {case}", 10000)
    above = np.where(stays, -np.inf, numbers).max(axis=-1) - np.where(stays, numbers, np.inf).min(axis=-1)
    what = "by how much a dropped logit exceeds a kept one"
    compare(mx.array(np.maximum(above, 0)), np.zeros(2), mx.float32, 0.0, f"{what}, {case}", 10000)


def test_task_2_top_p_sweep():
    for n in sweep(N=1100, V=4200):
        logits = unlike(n)
        sums = np.cumsum(-np.sort(-softmax64(to_float64(logits), -1), axis=-1), axis=-1)
        for p in (n.turn(0.5, 0.9, 0.7), 0.02):
            agrees(sampler.keep_top_p, top_p64, logits, off(sums, p, n.dtype), seed=n)
        for ordered in in_order(logits):
            agrees(sampler.keep_top_p, top_p64, ordered, off(sums, 0.6, n.dtype), seed=n)


def test_task_2_top_p_pytorch(pytorch):
    logits = vocabularies(7)

    def by_sort(torch, logits, p):
        values, order = torch.sort(logits, dim=-1, descending=True)
        probabilities = torch.softmax(values, dim=-1)
        before = torch.cumsum(probabilities, dim=-1) - probabilities
        values = values.masked_fill(before >= p, -math.inf)
        return torch.empty_like(logits).scatter(-1, order, values)

    expected = pytorch(by_sort, logits, 0.85)
    agrees(sampler.keep_top_p, top_p64, logits, 0.85, seed=7, expected=expected)


@property_test
@given(rows=st.integers(1, 4), size=st.integers(1, 30), p=st.floats(0.001, 0.999), seed=st.integers(0, 99))
def test_task_2_top_p_keeps_no_extra_token(rows, size, p, seed):
    """The kept tokens sum to p or more; without the least likely of them they would not."""
    logits = normals(seed)(rows, size, spread=2.0)
    left = np.where(to_float64(sampler.keep_top_p(logits, p)) > -np.inf, softmax64(to_float64(logits), -1), 0.0)
    rarest = np.where(left > 0, left, np.inf).min(axis=-1)
    short = np.maximum(p - left.sum(axis=-1), 0) + np.maximum(left.sum(axis=-1) - rarest - p, 0)
    case = f"missing or excess probability of float32, logits {rows} x {size}, p {p:.4g}, seed {seed}"
    compare(mx.array(short), np.zeros(rows), mx.float32, 1e-5, case, logits.size)
