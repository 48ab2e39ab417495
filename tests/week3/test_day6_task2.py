"""Week 3, day 6, task 2: n-gram lookup.

Expected is the result of comparing the end of the sequence with every earlier position.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.formulas_day6 import lookup64

from tiny_llm.speculative import ngram
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again, same_ids


def lookup_agrees(tokens, count, *limits, expected=None):
    shown = str(tokens) if len(tokens) <= 16 else f"[... {str(tokens[-12:])[1:]} ({len(tokens)} tokens)"
    names = zip(("longest", "shortest"), limits, strict=False)
    case = ", ".join([f"tokens {shown}, count {count}", *(f"{name} {each}" for name, each in names)])
    given = list(tokens)
    found = again(lambda: ngram.prompt_lookup(tokens, count, *limits), case)
    if tokens != given:
        fail(Kind.INPUT_CHANGED, "the caller's `tokens` was changed", case)
    wanted = lookup64(tokens, count, *limits)
    if expected is not None:
        assert wanted == expected
    same_ids(found, wanted, case)


def test_task_2_lookup_sentence():
    """`5 1` has occurred twice: what followed the latest time counts, although `1` alone has occurred later."""
    tokens = [5, 1, 7, 8, 2, 5, 1, 9, 3, 4, 1, 6, 0, 5, 1]
    lookup_agrees(tokens, 3, expected=[9, 3, 4])
    lookup_agrees(tokens, 3, 1, 1, expected=[6, 0, 5])
    lookup_agrees(tokens, 3, 3, 3, expected=[])


def test_task_2_lookup_limits():
    """Never more than requested, and never past the end of the sequence."""
    lookup_agrees([1, 2, 9, 1, 2], 5, 2, expected=[9, 1, 2])
    lookup_agrees([1, 2, 9, 1, 2], 1, 2, expected=[9])
    lookup_agrees([1, 2, 9, 1, 2], 0, 2, expected=[])
    lookup_agrees([7, 8, 7], 4, 5, 1, expected=[8, 7])


def test_task_2_lookup_sizes():
    """The longest n-gram that has occurred before decides, between min_ngram and max_ngram tokens."""
    tokens = [4, 2, 3, 5, 2, 3, 6, 3, 7, 4, 2, 3]
    for longest, expected in ((1, [7, 4]), (2, [6, 3]), (3, [5, 2]), (9, [5, 2])):
        lookup_agrees(tokens, 2, longest, expected=expected)
    lookup_agrees([1, 2, 3, 4, 2], 3, 3, 2, expected=[])
    lookup_agrees([1, 2, 3, 1, 2], 3, 3, 2, expected=[3, 1, 2])


def test_task_2_lookup_overlap():
    """A match may overlap the end of the sequence, but the end itself is none."""
    lookup_agrees([6, 6, 6, 6], 3, expected=[6])
    lookup_agrees([6, 6], 2, expected=[6])
    lookup_agrees([1, 2, 1, 2, 1], 5, 3, expected=[2, 1])
    lookup_agrees([6, 6, 6], 1, 2, 2, expected=[6])


def test_task_2_lookup_whole_tokens():
    """Token 2 does not match in token 23, nor in token 12."""
    lookup_agrees([1, 23, 5, 1, 2], 2, expected=[])
    lookup_agrees([12, 7, 2, 9, 12, 8, 2], 3, 1, expected=[9, 12, 8])


@pytest.mark.parametrize("tokens", [[], [4], [1, 2, 3], [1, 1, 2]], ids=str)
def test_task_2_lookup_nothing(tokens):
    lookup_agrees(tokens, 3, expected=[])


def test_task_2_lookup_defaults():
    """3-grams, then 2-grams, then 1-grams."""
    lookup_agrees([9, 1, 2, 3, 4, 7, 8, 2, 3, 4, 6, 1, 2, 3, 4], 3, expected=[6, 1, 2])
    lookup_agrees([5, 1, 5], 3, expected=[1, 5])


def test_task_2_lookup_sweep():
    for n in sizes(L=1100, V=70, K=20):
        tokens = np.random.default_rng(n.seed).integers(0, n.V, n.L - 1).tolist()
        lookup_agrees(tokens, n.K - 1, n.turn(3, 1, 2, 5), 1)


@property_test
@given(
    tokens=st.lists(st.integers(0, 2), max_size=20),
    count=st.integers(0, 6),
    limits=st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_task_2_lookup_any_sequence(tokens, count, limits):
    lookup_agrees(tokens, count, max(limits), min(limits))


@property_test
@given(tokens=st.lists(st.integers(0, 2), max_size=20), size=st.integers(1, 4))
def test_task_2_lookup_has_occurred_before(tokens, size):
    """The proposal has followed the last token before: it occurs directly after an equal one."""
    case = f"tokens {tokens}, count 3, longest {size}"
    found = again(lambda: ngram.prompt_lookup(tokens, 3, size), case)
    pieces = [tokens[at : at + 1 + len(found)] for at in range(len(tokens) - 1)]
    if found and [tokens[-1], *found] not in pieces:
        fail(Kind.VALUES, "the proposal has never followed the last token", case, f"got       {found}")


@pytest.mark.parametrize(
    ("count", "longest", "shortest", "number"), [(-1, 3, 1, "-1"), (-2, 3, 1, "-2"), (2, 3, 0, "0"), (2, 1, 2, "1")]
)
def test_task_2_lookup_refuses(count, longest, shortest, number):
    with raises_value_error(f"tokens [1, 2, 1], count {count}, longest {longest}, shortest {shortest}", number):
        ngram.prompt_lookup([1, 2, 1], count, longest, shortest)


@pytest.mark.parametrize(
    ("tokens", "count", "longest", "shortest", "number"),
    [([], -1, 3, 1, "-1"), ([4], 2, 3, 0, "0"), ([1, 2, 1], 0, 3, -2, "-2"), ([1, 2, 1], 0, 1, 2, "1")],
)
def test_task_2_lookup_refuses_first(tokens, count, longest, shortest, number):
    """Even if nothing could be proposed, or nothing is requested."""
    with raises_value_error(f"tokens {tokens}, count {count}, longest {longest}, shortest {shortest}", number):
        ngram.prompt_lookup(tokens, count, longest, shortest)
