"""Week 1, day 6, task 2: merging pairs."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.drawn_tables import drawn_pairs
from tests.week1.tokenizing import merge_formula, words

from tiny_llm import tokenizer
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.texts import LENGTHS, again, same_pieces


def check_merge(symbols, pairs, expected, ranks=None):
    """Check the merges of a word; `pairs` are in learned order, as in "b+l l+u", which gives the default ranks."""
    ranks = ranks or {tuple(pair.split("+")): rank for rank, pair in enumerate(pairs.split())}
    split = f": {symbols}" if len(symbols) < 5 and any(len(symbol) > 1 for symbol in symbols) else ""
    case = f"the word {words(''.join(symbols))} in {len(symbols)} symbols{split}, pairs by rank: {pairs or 'none'}"
    given: list[list[str]] = []  # each call gets a new list, which it may return if there is nothing to merge

    def merge():
        given.append(list(symbols))
        return tokenizer.merge_pairs(given[-1], ranks)

    merged = again(merge, case)
    same_pieces(merged, expected, case)
    if any(each != list(symbols) for each in given):
        fail(Kind.INPUT_CHANGED, "the caller's `symbols` was changed", case, "copy the list first")


@pytest.mark.parametrize(
    ("word", "pairs", "expected"),
    [
        ("blue", "b+l u+e bl+ue", "blue"),
        ("blue", "b+l u+e", "bl ue"),
        ("blue", "l+u b+l u+e lu+e", "b lue"),  # b+l comes first, but l+u was learned first
        ("blue", "u+e l+ue b+l bl+ue", "b lue"),
        ("abcd", "b+c a+b c+d bc+d", "a bcd"),
        ("dog", "d+o do+g", "dog"),
        ("dogdog", "d+o do+g", "dog dog"),  # every occurrence of a pair
        ("doodad", "d+o", "do o d a d"),
        ("dog", "g+o o+d", "d o g"),  # the order within a pair matters
        ("dog", "", "d o g"),
        ("d", "d+d", "d"),
        ("", "d+o", ""),
        ("a bc ab c", "b+c a+b ab+c", "a bc abc"),  # partly merged: a + bc spells the same as ab + c
    ],
)
def test_task_1_merge_by_hand(word, pairs, expected):
    check_merge(word.split() if " " in word else list(word), pairs, expected.split())


@pytest.mark.parametrize(
    ("length", "expected"), [(2, "aa"), (3, "aa a"), (4, "aaaa"), (5, "aaaa a"), (6, "aaaa aa"), (7, "aaaa aa a")]
)
def test_task_1_merge_repeated_characters(length, expected):
    """In "aaa" the pair a+a occurs twice, overlapping: the left one is merged."""
    check_merge(["a"] * length, "a+a aa+aa", expected.split())


def test_task_1_merge_long_word_sweep():
    """More merges than Python's recursion limit: pairs of equal powers of two, the largest first."""
    powers = ["a" * 2**n for n in range(11)]
    check_merge(["a"] * 1100, " ".join(f"{a}+{a}" for a in powers[:-1]), [powers[n] for n in (10, 6, 3, 2)])


def test_task_1_merge_goes_by_rank():
    """`ranks` may list its pairs in any order."""
    case = "the word 'blue', ranks {(b, l): 1, (l, u): 0}"
    with noted(case):
        merged = tokenizer.merge_pairs(list("blue"), {("b", "l"): 1, ("l", "u"): 0})
    same_pieces(merged, ["b", "lu", "e"], case)


def rank_of(pairs):
    return {pair: rank for rank, pair in enumerate(pairs)}


def learned(text, number):
    """Learn pairs: the most frequent first, never one that spells an existing symbol."""
    pieces = list(text)
    pairs: list[tuple[str, str]] = []
    while len(pairs) < number:
        counts = Counter(itertools.pairwise(pieces))
        known = {a + b for a, b in pairs}
        fresh = [pair for pair in sorted(counts) if "".join(pair) not in known]
        if not fresh:
            break
        pairs.append(max(fresh, key=counts.__getitem__))
        pieces = merge_formula(pieces, {pairs[-1]: 0})
    return pairs


@property_test
@given(text=st.text("abc", min_size=2, max_size=60), word=st.text("abc", max_size=20), number=st.integers(1, 12))
def test_task_1_merge_formula(text, word, number):
    """A table learned from one text, applied to a different word."""
    pairs = learned(text, number)
    ranks = {pair: rank for rank, pair in enumerate(pairs)}
    check_merge(list(word), " ".join("+".join(pair) for pair in pairs), merge_formula(word, ranks))


def test_task_1_merge_sweep():
    """Words of all lengths, with tables of few and many pairs learned from similar words."""
    tables_of = [learned(text, number) for text in ("abcab" * 9, "1223" * 20, "a" * 70) for number in (1, 2, 3, 8, 30)]
    text = "thatisabluedogandthedogsatonthematwiththecatatnine" * 3
    pairs = learned(text, 60)
    for begin in range(0, 90, 3):
        word = text[begin : begin + begin // 2 + 1]
        check_merge(list(word), " ".join("+".join(p) for p in pairs), merge_formula(word, rank_of(pairs)))
    for length in (0, *LENGTHS, 1009):
        for i, pairs in list(enumerate(tables_of))[0 if length < 21 else length % 3 :: 1 if length < 21 else 3]:
            word = "".join(["abcab", "12233", "aaaaa"][i // 5][(j * j + i) % 5] for j in range(length))
            check_merge(list(word), " ".join("+".join(p) for p in pairs), merge_formula(word, rank_of(pairs)))


def test_task_1_merge_random_sweep():
    """Random tables: pairs that spell the same, listed in any order, ranks with gaps. Words of single characters, and
    words that are partly merged already.
    """
    for seed in range(40):
        generator = np.random.default_rng(seed)
        letters = "ab" if seed % 2 else "abc"
        pairs = drawn_pairs(seed, letters, 8 + seed % 20)
        ranks = {pairs[i]: 3 * int(i) + seed for i in generator.permutation(len(pairs))}
        made = [*letters, *dict.fromkeys(a + b for a, b in pairs)]
        for length in (3, 4, 5, 8, 30):
            for pieces in (list(letters), made):
                word = [str(piece) for piece in generator.choice(pieces, length)]
                check_merge(word, " ".join("+".join(p) for p in pairs), merge_formula(word, ranks), ranks)
