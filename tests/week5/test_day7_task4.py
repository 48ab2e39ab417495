"""Task 5.7.4, two models on the same items, checked against its formula and against all outcomes of the sign test."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.formulas_day7 import bootstrap64, sign_test_by_flipping
from tests.week5.toy import same_float, words_of

from tiny_llm.evaluation import intervals
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

FIELDS = ("difference", "low", "high", "p_value")
FIRST = [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0]
SECOND = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]


def compared(first, second, *settings):
    case = f"first {words_of(first)}, second {words_of(second)}, settings {settings}"
    with noted(case):
        found = intervals.compare_paired(first, second, *settings)
    missing = [name for name in FIELDS if not hasattr(found, name)]
    if missing:
        fail(Kind.TYPE, f"returned {type_words(found)}, which has no {missing[0]}", case, size=len(first))
    return found, case


def expected_of(first, second, confidence, resamples, seed, p_value=None):
    differences = [a - b for a, b in zip(first, second, strict=True)]
    low, high = bootstrap64(differences, confidence, resamples, seed)
    p_value = sign_test_by_flipping(differences) if p_value is None else p_value
    return {"difference": sum(differences) / len(differences), "low": low, "high": high, "p_value": p_value}


def agree(first, second, confidence=0.9, resamples=60, seed=1, p_value=None):
    found, case = compared(first, second, confidence, resamples, seed)
    for name, wanted in expected_of(first, second, confidence, resamples, seed, p_value).items():
        same_float(getattr(found, name), wanted, name, case, len(first))


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_task_4_paired_formula(confidence, seed):
    agree(FIRST, SECOND, confidence, 100, seed)


def test_task_4_paired_exchanged():
    """The second model first: the difference changes its sign, the p-value does not."""
    agree(SECOND, FIRST)


@pytest.mark.parametrize(
    ("wins", "losses", "ties"),
    [(1, 0, 0), (0, 1, 3), (5, 0, 0), (0, 5, 4), (3, 3, 1), (4, 3, 0), (8, 1, 2), (0, 0, 4), (2, 2, 0)],
)
def test_task_4_paired_sign_test(wins, losses, ties):
    """All outcomes of the decided items are tried; ties do not count."""
    agree([1.0] * wins + [0.0] * losses + [1.0] * ties, [0.0] * wins + [1.0] * losses + [1.0] * ties)


def test_task_4_paired_scores_other_than_0_and_1():
    """A sign test counts who wins an item, not by how much."""
    draw = np.random.default_rng(3)
    agree(draw.normal(size=9).tolist(), draw.normal(size=9).tolist())


def test_task_4_paired_same_model_is_no_different():
    """A model against itself: every resampled difference is 0."""
    agree(FIRST, list(FIRST))


def test_task_4_paired_one_item_more():
    """The first model is right wherever the second is, and on three items more: the interval has no negative number."""
    first = [1.0] * 9 + [0.0] * 3
    agree(first, [1.0] * 6 + [0.0] * 6)


@pytest.mark.parametrize(("wins", "losses"), [(600, 500), (2000, 1900), (1100, 3)])
def test_task_4_paired_many_items(wins, losses):
    """2^3900 is more than a float holds."""
    decided = wins + losses
    tail = sum(math.comb(decided, i) for i in range(min(wins, losses) + 1))
    first, second = [1.0] * wins + [0.0] * losses, [0.0] * wins + [1.0] * losses
    agree(first, second, 0.9, 3, 1, p_value=min(1.0, float(Fraction(2 * tail, 2**decided))))


def test_task_4_paired_defaults():
    found, case = compared(FIRST, SECOND)
    for name, wanted in expected_of(FIRST, SECOND, 0.95, 10_000, 0).items():
        same_float(getattr(found, name), wanted, name, case, len(FIRST))


def test_task_4_paired_sweep():
    for n in sizes(N=200, R=60):
        draw = np.random.default_rng(n.seed)
        first, second = ((draw.random(n.N) < p).astype(float).tolist() for p in (0.8, n.turn(0.8, 0.4, 0.6)))
        wins, losses = (sum(a > b for a, b in zip(*pair, strict=True)) for pair in ((first, second), (second, first)))
        tail = sum(math.comb(wins + losses, i) for i in range(min(wins, losses) + 1))
        p_value = float(min(Fraction(1), Fraction(2 * tail, 2 ** (wins + losses))))
        agree(first, second, n.turn(0.95, 0.5, 0.8), n.R, n.seed, p_value)


@property_test
@given(seed=st.integers(0, 99), count=st.integers(1, 10))
def test_task_4_paired_order_of_items(seed, count):
    """The difference and the p-value do not depend on the order of the items, as long as the pairs stay together."""
    draw = np.random.default_rng(seed)
    first, second = (draw.integers(0, 2, count).astype(float) for _ in range(2))
    order = draw.permutation(count)
    old, _ = compared(first.tolist(), second.tolist(), 0.9, 20, 0)
    new, case = compared(first[order].tolist(), second[order].tolist(), 0.9, 20, 0)
    for name in ("difference", "p_value"):
        same_float(getattr(new, name), getattr(old, name), name, f"{case}, against another order of the items", count)


@pytest.mark.parametrize("counts", [(3, 4), (4, 3), (0, 1)], ids=str)
def test_task_4_paired_refuses_unequal_numbers(counts):
    first, second = ([1.0] * count for count in counts)
    with raises_value_error(f"{counts[0]} and {counts[1]} values", *map(str, counts)):
        intervals.compare_paired(first, second, 0.9, 20, 0)


def test_task_4_paired_refuses_no_items():
    with raises_value_error("no values"):
        intervals.compare_paired([], [], 0.9, 20, 0)
