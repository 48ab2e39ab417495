"""Task 5.1.2, learning merges, checked against a formula on ids and the merges of Hugging Face's `tokenizers`."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week5.merging import WORD_COUNTS, case_id, counts_of, merges_formula, same_merges, words_of_all_lengths
from tests.week5.training_texts import recorded

from tiny_llm.bpe import naive
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.properties import property_test


def check(counts, num, case=""):
    same_merges(naive.train_naively, counts, num, merges_formula(counts, num), case)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"dog": 3, "dig": 2}, ["d+o", "do+g", "d+i", "di+g"]),  # d o and o g tie, d has the smaller id
        ({"dig": 2, "dog": 3}, ["d+o", "do+g", "d+i", "di+g"]),
        ({"\u0120a": 1, "ab": 1}, ["a+b", "\u0120+a"]),  # the space has a larger id than a
        ({"ab": 1, "aa": 1}, ["a+a", "a+b"]),  # the left tokens are equal
        ({"zz": 3, "zzy": 1, "xyy": 2}, ["z+z", "x+y", "xy+y", "zz+y"]),
        ({"hez": 4, "zhe": 4}, ["h+e", "z+he", "he+z"]),  # he was made last: its id is larger than z's
        ({"aaa": 5}, ["a+a", "aa+a"]),
        ({"aaaa": 1}, ["a+a", "aa+aa"]),
        ({"ab": 1}, ["a+b"]),  # a pair that occurs once
        ({"a": 7}, []),
        ({}, []),
    ],
    ids=case_id,
)
def test_task_2_naive_by_hand(counts, expected):
    same_merges(naive.train_naively, counts, 9, [(a, b) for a, b in (pair.split("+") for pair in expected)])


@pytest.mark.parametrize("num", [0, 1, 2, 3, 4, 100])
def test_task_2_naive_stops(num):
    """After num_merges, or when no two tokens are adjacent any more."""
    check({"blue": 2, "blues": 1}, num)


@pytest.mark.parametrize("word", ["ababab", "aabaab", "aaaaaaa", "abbaabba"])
def test_task_2_naive_overlapping(word):
    """Every place counts, even if places overlap; they are merged from left to right."""
    check({word: 2, "bax": 1}, 9)
    check({"x" + word + "y": 1, word * 2: 1}, 20)


def test_task_2_naive_counts_each_occurrence():
    """One word occurs often, another has the pair at several places, others just differ."""
    check({"xy": 10, "ab": 1, "abc": 1, "dab": 1, "zabz": 1}, 4)
    check({"abab": 3, "cd": 5, "ce": 1}, 4)


@pytest.mark.parametrize(("name", "num"), [("a short text", 60), ("ties", 90), ("many scripts", 120), ("a page", 60)])
def test_task_2_naive_tokenizers(name, num):
    """The merges of Hugging Face's `tokenizers`, ties included."""
    same_merges(naive.train_naively, counts_of(name), num, recorded()[name][:num], f"the words of the text {name!r}")


def test_task_2_naive_sweep():
    """Words of all lengths, alone and with others; alphabets of one to twelve letters."""
    for counts, num in words_of_all_lengths():
        check(counts, num)


@property_test
@given(counts=WORD_COUNTS, num=st.integers(0, 30))
def test_task_2_naive_formula(counts, num):
    check(counts, num)


@property_test
@given(counts=WORD_COUNTS, seed=st.integers(0, 99))
def test_task_2_naive_in_any_order(counts, seed):
    """The order of the words does not matter, because ids decide ties."""
    expected, rows = merges_formula(counts, 12), list(counts.items())
    random.Random(seed).shuffle(rows)
    same_merges(naive.train_naively, dict(rows), 12, expected)


@pytest.mark.parametrize("num", [-1, -7])
def test_task_2_naive_refuses_a_negative_number(num):
    with raises_value_error(f"dog 3; num_merges {num}", str(num)):
        naive.train_naively({"dog": 3}, num)


@pytest.mark.parametrize("word", ["a dog", "\u72d7", "\u0144", "do\n"], ids=ascii)
def test_task_2_naive_refuses_other_characters(word):
    """Words must be written in the characters of `byte_alphabet`."""
    for num in (5, 0):
        with raises_value_error(f"dog 3, {word!a} 1; num_merges {num}", word.strip()):
            naive.train_naively({"dog": 3, word: 1}, num)
