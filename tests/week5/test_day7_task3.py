"""Task 5.7.3, the bootstrap interval, checked against its formula, NumPy's quantiles and all resamples."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day7 import bootstrap64
from tests.week5.toy import same_float, words_of

from tiny_llm.evaluation import intervals
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

RIGHT_AND_WRONG = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0]


def interval(values, confidence=0.95, resamples=200, seed=0):
    """The learner's interval, and its case in words; the type is checked."""
    case = f"values {words_of(values)}, confidence {confidence}, resamples {resamples}, seed {seed}"
    kept = list(values)
    with noted(case):
        found = intervals.bootstrap_interval(values, confidence, resamples, seed)
    if type(found) is not tuple or len(found) != 2:
        fail(Kind.TYPE, f"returned {type_words(found)}, expected a tuple of two floats", case, size=len(values))
    fail_if_different("the caller's `values` were changed", kept, list(values), case, len(values))
    return found, case


def agree(values, confidence=0.95, resamples=200, seed=0, expected=None):
    found, case = interval(values, confidence, resamples, seed)
    expected = bootstrap64(values, confidence, resamples, seed) if expected is None else expected
    for what, actual, wanted in zip(("the lower end", "the upper end"), found, expected, strict=True):
        same_float(actual, wanted, what, case, len(values))


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("seed", [0, 1, 77])
def test_task_3_bootstrap_formula(seed, confidence):
    agree(RIGHT_AND_WRONG, confidence, 200, seed)


@pytest.mark.parametrize("seed", [0, 3])
def test_task_3_bootstrap_any_numbers(seed):
    """Scores that are not 0 or 1, skewed: mean and median differ."""
    agree(np.random.default_rng(5).lognormal(size=9).tolist(), 0.8, 150, seed)


@pytest.mark.parametrize("values", [[0.25], [1.0, 1.0, 1.0], [0.0, 1.0]], ids=str)
def test_task_3_bootstrap_few_values(values):
    """A single value, equal ones, and two."""
    agree(values, 0.9, 40, 2)


@pytest.mark.parametrize("resamples", [1, 2, 3, 11])
def test_task_3_bootstrap_few_resamples(resamples):
    """As many resamples as values, and fewer: the axes differ."""
    agree(RIGHT_AND_WRONG, 0.9, resamples, 4)


def test_task_3_bootstrap_defaults():
    """95 %, 10,000 resamples, seed 0."""
    case = f"values {words_of(RIGHT_AND_WRONG)}"
    with noted(case):
        found = intervals.bootstrap_interval(RIGHT_AND_WRONG)
    for what, actual, wanted in zip(
        ("the lower end", "the upper end"), found, bootstrap64(RIGHT_AND_WRONG, 0.95, 10_000, 0), strict=True
    ):
        same_float(actual, wanted, what, case, len(RIGHT_AND_WRONG))


def test_task_3_bootstrap_numpy():
    values = np.random.default_rng(6).normal(size=12).tolist()
    drawn = np.random.default_rng(9).choice(np.array(values), (300, 12))  # draws the same indices as `integers`
    agree(values, 0.9, 300, 9, expected=np.quantile(drawn.mean(axis=1), [0.05, 0.95]).tolist())


def test_task_3_bootstrap_all_resamples():
    """All 256 resamples of four values: 20,000 drawn ones have almost the same quantiles, whatever the generator."""
    values = [0.0, 1.0, 3.0, 4.0]
    means = sorted(sum(each) / 4 for each in itertools.product(values, repeat=4))
    found, case = interval(values, 0.8, 20_000, 3)
    for what, actual, share in zip(("the lower end", "the upper end"), found, (0.1, 0.9), strict=True):
        wanted = means[round(share * 255)]
        if type(actual) is not float or not math.isclose(actual, wanted, abs_tol=0.26):  # means are multiples of 1/4
            lines = (f"expected  {wanted:g} to a quarter", f"got       {actual}")
            fail(Kind.VALUES, f"{what} is far from that of all 256 resamples", case, *lines, size=4)


def test_task_3_bootstrap_sweep():
    for n in sizes(N=300, R=257):
        values = np.random.default_rng(n.seed).normal(n.turn(0.0, -5.0, 100.0), size=n.N).tolist()
        agree(values, n.turn(0.95, 0.5, 0.8), n.R, n.seed)


@property_test
@given(count=st.integers(1, 12), seed=st.integers(0, 99))
def test_task_3_bootstrap_moves_with_the_values(count, seed):
    """Adding 2 to all values adds 2 to both ends."""
    values = np.random.default_rng(seed).normal(size=count).tolist()
    found, _ = interval(values, 0.9, 50, seed)
    moved, case = interval([value + 2 for value in values], 0.9, 50, seed)
    for what, actual, old in zip(("the lower end", "the upper end"), moved, found, strict=True):
        same_float(actual, old + 2, what, f"{case}, against the same without the 2", count)


def test_task_3_bootstrap_leaves_the_global_generator_alone():
    np.random.seed(7)
    expected = np.random.random()
    np.random.seed(7)
    agree(RIGHT_AND_WRONG, 0.9, 30, 5)
    actual = np.random.random()
    case = f"values {words_of(RIGHT_AND_WRONG)}, seed 5, then a number from np.random"
    same_float(actual, expected, "the number from NumPy's global generator", case)


@pytest.mark.parametrize(
    ("values", "confidence", "resamples", "word"),
    [
        ([], 0.9, 50, "values"), ([1.0, math.nan], 0.9, 50, "values"), ([math.inf], 0.9, 50, "values"),
        ([0.0, -math.inf], 0.9, 50, "values"), ([1.0, 0.0], -0.5, 50, "confidence"),
        ([1.0, 0.0], 0, 50, "confidence"), ([1.0, 0.0], 1, 50, "confidence"), ([1.0, 0.0], 95, 50, "confidence"),
        ([1.0, 0.0], 0.9, 0, "resamples"), ([1.0, 0.0], 0.9, -1, "resamples"),
    ],
    ids=str,
)  # fmt: skip
def test_task_3_bootstrap_refuses(values, confidence, resamples, word):
    with raises_value_error(f"values {values}, confidence {confidence}, resamples {resamples}", word):
        intervals.bootstrap_interval(values, confidence, resamples, 0)
