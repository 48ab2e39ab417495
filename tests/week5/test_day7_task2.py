"""Task 5.7.2, pass@k, checked against all sets of k samples and against exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day7 import pass_by_counting
from tests.week5.toy import same_float

from tiny_llm.evaluation import samples as samples_module
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def agree(samples, correct, k, expected):
    case = f"samples {samples}, correct {correct}, k {k}"
    with noted(case):
        actual = samples_module.pass_at_k(samples, correct, k)
    same_float(actual, expected, f"pass@{k}", case, samples)


@pytest.mark.parametrize(
    ("samples", "correct", "k"), [(5, 2, 1), (5, 2, 2), (5, 2, 3), (5, 2, 4), (6, 1, 3), (7, 3, 2), (4, 3, 1)]
)
def test_task_2_pass_all_sets(samples, correct, k):
    """Every set of k samples is tried."""
    agree(samples, correct, k, pass_by_counting(samples, correct, k))


@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("correct", [0, 8])
def test_task_2_pass_none_or_all_correct(correct, k):
    agree(8, correct, k, float(correct == 8))


@pytest.mark.parametrize("correct", [3, 4, 5])
def test_task_2_pass_too_few_wrong_ones(correct):
    """Two to four wrong samples of seven: from three on, a set of three can be all wrong."""
    agree(7, correct, 4, pass_by_counting(7, correct, 4))


@pytest.mark.parametrize(
    ("samples", "correct", "k"),
    [(200, 3, 100), (1000, 1, 10), (1000, 500, 100), (10_000, 1, 1), (10_000, 5000, 1000), (10_000, 7, 5000)],
)
def test_task_2_pass_many_samples(samples, correct, k):
    """C(10000, 5000) has 3,009 digits: more than a float holds."""
    without = Fraction(math.comb(samples - correct, k), math.comb(samples, k))
    agree(samples, correct, k, float(1 - without))


def test_task_2_pass_sweep():
    for n in sizes(N=1100, C=1100, K=1100):
        samples = max(n.N, n.C, n.K)
        correct, k = n.C % (samples + 1), n.K
        without = Fraction(math.comb(samples - correct, k), math.comb(samples, k))
        agree(samples, correct, k, float(1 - without))


@property_test
@given(samples=st.integers(2, 9), correct=st.integers(0, 9), k=st.integers(1, 9))
def test_task_2_pass_grows_with_k(samples, correct, k):
    """Another try never hurts."""
    correct, k = min(correct, samples), min(k, samples - 1)
    case = f"samples {samples}, correct {correct}, k {k} and {k + 1}"
    with noted(case):
        once, again = (samples_module.pass_at_k(samples, correct, each) for each in (k, k + 1))
    same_float(max(once, again), again, f"the larger of pass@{k} and pass@{k + 1}", case)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_task_2_pass_is_unbiased(k):
    """Over all outcomes of five samples, weighted by their probability, the mean is 1 - (1 - p)^k."""
    p, samples = 0.3, 5
    case = f"samples {samples}, the mean over all numbers of correct ones, each right with probability {p}, k {k}"
    with noted(case):
        found = [samples_module.pass_at_k(samples, c, k) for c in range(samples + 1)]
    weights = [math.comb(samples, c) * p**c * (1 - p) ** (samples - c) for c in range(samples + 1)]
    same_float(float(np.dot(found, weights)), 1 - (1 - p) ** k, "the mean", case)


@pytest.mark.parametrize("k", [-1, 0, 6, 100])
def test_task_2_pass_refuses_k(k):
    with raises_value_error(f"samples 5, correct 2, k {k}", str(k), "5"):
        samples_module.pass_at_k(5, 2, k)


@pytest.mark.parametrize("correct", [-1, 6])
def test_task_2_pass_refuses_counts(correct):
    with raises_value_error(f"samples 5, correct {correct}, k 2", str(correct), "5"):
        samples_module.pass_at_k(5, correct, 2)
