"""Task 5.1.3, learning merges fast, checked against the formula and the merges of Hugging Face's `tokenizers`."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.merging import (
    WORD_COUNTS,
    case_id,
    counts_of,
    lines_per_merge,
    merges_formula,
    same_merges,
    words_of_all_lengths,
)
from tests.week5.training_texts import OF_STORIES, STORIES, recorded, texts

from tiny_llm.bpe import trainer
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test


def check(counts, num, case=""):
    same_merges(trainer.train_bpe, counts, num, merges_formula(counts, num), case)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"dog": 3, "dig": 2}, ["d+o", "do+g", "d+i", "di+g"]),
        ({"\u0120a": 1, "ab": 1}, ["a+b", "\u0120+a"]),  # the space has a larger id than a
        ({"ab": 1, "aa": 1}, ["a+a", "a+b"]),
        ({"hez": 4, "zhe": 4}, ["h+e", "z+he", "he+z"]),  # he has a larger id than z
        ({"abc": 5, "bc": 1, "bd": 3}, ["b+c", "a+bc", "b+d"]),  # b c is first; then a b no longer exists
        ({"abc": 5, "ab": 3, "xbc": 2, "cx": 4}, ["a+b", "ab+c", "c+x", "b+c", "x+bc"]),  # b c falls from 7 to 2
        ({"aaa": 5}, ["a+a", "aa+a"]),
        ({"aaaa": 1}, ["a+a", "aa+aa"]),
        ({"ab": 1}, ["a+b"]),
        ({"a": 7}, []),
        ({}, []),
    ],
    ids=case_id,
)
def test_task_3_trainer_by_hand(counts, expected):
    same_merges(trainer.train_bpe, counts, 9, [(a, b) for a, b in (pair.split("+") for pair in expected)])


@pytest.mark.parametrize("num", [0, 1, 2, 3, 4, 100])
def test_task_3_trainer_stops(num):
    check({"blue": 2, "blues": 1}, num)


@pytest.mark.parametrize("word", ["ababab", "aabaab", "aaaaaaa", "abbaabba"])
def test_task_3_trainer_overlapping(word):
    """A pair overlaps with itself or occurs several times in a word."""
    check({word: 2, "bax": 1}, 9)
    check({"x" + word + "y": 1, word * 2: 1}, 20)


@pytest.mark.parametrize("name", [*texts(), STORIES])
def test_task_3_trainer_tokenizers(name):
    """The merges of Hugging Face's `tokenizers`, ties included."""
    num = texts()[name][1] if name in texts() else OF_STORIES
    same_merges(trainer.train_bpe, counts_of(name), num, recorded()[name], f"the words of the text {name!r}")


def test_task_3_trainer_visits_only_words_with_the_pair():
    """Each merge changes one to three of 1,299 words: visiting all of them takes 1,299 lines and more."""
    check({"abab": 9, "AB": 1, "CD": 1}, 3)
    case = "1,299 words, of which each merge changes at most two"
    with noted(case):
        lines = lines_per_merge(trainer.train_bpe)
    if lines >= 1299:
        headline = f"a merge takes {lines:,.0f} lines of Python, as if it visited every word"
        fail(Kind.VALUES, headline, case, "at most   1,298", size=1299)


def test_task_3_trainer_sweep():
    """Words of all lengths, alone and with others; alphabets of one to twelve letters."""
    for counts, num in words_of_all_lengths():
        check(counts, num)


@property_test
@given(counts=WORD_COUNTS, num=st.integers(0, 30))
def test_task_3_trainer_formula(counts, num):
    check(counts, num)


@property_test
@given(counts=WORD_COUNTS, seed=st.integers(0, 99))
def test_task_3_trainer_in_any_order(counts, seed):
    expected, rows = merges_formula(counts, 12), list(counts.items())
    random.Random(seed).shuffle(rows)
    same_merges(trainer.train_bpe, dict(rows), 12, expected)


@pytest.mark.parametrize("num", [-1, -7])
def test_task_3_trainer_refuses_a_negative_number(num):
    with raises_value_error(f"dog 3; num_merges {num}", str(num)):
        trainer.train_bpe({"dog": 3}, num)


@pytest.mark.parametrize("word", ["a dog", "\u72d7", "\u0144", "do\n"], ids=ascii)
def test_task_3_trainer_refuses_other_characters(word):
    for num in (5, 0):
        with raises_value_error(f"dog 3, {word!a} 1; num_merges {num}", word.strip()):
            trainer.train_bpe({"dog": 3, word: 1}, num)
