"""Week 3, day 5, task 1: the tree.

The tree is checked against a plain dictionary of all prefixes, page by page.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.played_tree import BLUE, BLUE_DOG, CAT, DOG, IS, RED, THAT, A, Played, texts_of
from tests.week3.prefixes import cut

from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes


def test_task_1_tree_five_tokens():
    """`That is a blue dog` in pages of two: the fifth token fills no page."""
    played = Played()
    played.match(*BLUE_DOG)
    played.insert(THAT, IS, A, BLUE)
    played.match(*BLUE_DOG)


@pytest.mark.parametrize("count", range(8))
def test_task_1_tree_matches_whole_pages(count):
    """The given number of tokens of a sequence of three pages."""
    played = Played()
    played.insert(THAT, IS, A, BLUE, DOG, CAT)
    played.match(*[THAT, IS, A, BLUE, DOG, CAT, RED][:count])


def test_task_1_tree_diverges_within_a_page():
    """`That was` shares a token with `That is`, and no page."""
    played = Played()
    played.insert(THAT, IS, A, BLUE)
    played.insert(THAT, RED, A, BLUE)
    played.match(THAT, IS, A, RED)
    played.match(THAT, DOG, A, BLUE)
    played.match(THAT, RED, A, BLUE, DOG, DOG)


@pytest.mark.parametrize("alike", [1, 2, 3])
def test_task_1_tree_splits_on_insert(alike):
    """Two sequences of four pages that diverge after the given number of pages."""
    played = Played()
    played.insert(*range(10, 18))
    other = [*range(10, 10 + 2 * alike), *range(20, 28 - 2 * alike)]
    played.insert(*other)
    played.match(*range(10, 18))
    played.match(*other, 9, 9)


@pytest.mark.parametrize("count", [2, 4, 5, 8])
def test_task_1_tree_splits_on_match(count):
    played = Played()
    played.insert(*range(10, 18))
    played.match(*range(10, 10 + count))
    played.match(*range(10, 10 + count), *range(30, 36))
    played.match(*range(10, 18))


def test_task_1_tree_splits_twice():
    """A node with children is split: they stay with the second half."""
    played = Played()
    played.insert(*range(10, 18))
    played.insert(*range(10, 16), 30, 31)
    played.insert(*range(10, 14), 40, 41, 42, 43)
    played.insert(10, 11)
    for text in ([*range(10, 18)], [*range(10, 16), 30, 31], [*range(10, 14), 40, 41, 42, 43], [10, 11, 50, 51]):
        played.match(*text)


def test_task_1_tree_grows():
    """A chat: each sequence continues the one before."""
    played = Played()
    for end in (14, 16, 22):
        played.insert(*range(10, end))
    played.match(*range(10, 30))


def test_task_1_tree_keeps_the_first_pages():
    """The same sequence in other pages, and in the tree's own: it retains neither again."""
    played = Played()
    played.insert(*range(10, 16))
    played.insert(*range(10, 16))
    played.insert(*range(10, 14), 20, 21)
    played.insert(*range(10, 20))
    own = played.match(*range(10, 20))
    played.pool.retain(own)
    played.insert(*range(10, 20), pages=own)


def test_task_1_tree_clock():
    """Also those that match nothing, and an empty sequence."""
    played = Played()
    played.match()
    played.insert()
    played.match(1, 2)
    played.insert(1, 2, 3, 4)
    played.match(1, 2, 5)
    played.match(7, 8)
    played.match(1, 2, 3, 4)


def test_task_1_tree_takes_any_sequence():
    played = Played()
    played.insert(*range(10, 16))
    played.match(*range(10, 17), like=tuple)
    played.match(*range(10, 13), like=tuple)


def test_task_1_tree_keeps_lists():
    """Tokens and pages come as tuples: a node has lists, because pages will be removed from their ends."""
    played = Played()
    played.insert(*range(10, 16), like=tuple)
    played.made_of_lists()
    played.insert(*range(10, 14), 20, 21, like=tuple)
    played.made_of_lists()


def test_task_1_tree_is_independent():
    one, other = Played(), Played()
    one.insert(*range(10, 14))
    other.match(*range(10, 14))
    other.insert(*range(20, 26))
    one.match(*range(20, 26))


@pytest.mark.parametrize("page", [1, 3, 16])
def test_task_1_tree_other_pages(page):
    played = Played(page)
    played.insert(*range(100, 100 + 4 * page))
    played.insert(*range(100, 100 + 2 * page), *range(200, 200 + 2 * page))
    played.match(*range(100, 100 + 4 * page))
    played.match(*range(100, 100 + 3 * page))
    played.match(*range(100, 100 + page), 5)


@pytest.mark.parametrize(("tokens", "pages"), [(5, 2), (3, 2), (4, 1), (2, 0), (0, 1)])
def test_task_1_tree_refuses_partial_pages(tokens, pages):
    played = Played()
    played.insert(1, 2)
    own = played.pool.allocate(pages)
    case = f"page 2, insert [1 2], insert {tokens} tokens in {pages} pages"
    with raises_value_error(case, str(tokens), str(pages)):
        played.tree.insert([1, 2, 3, 4, 5][:tokens], own)
    played.pool.release(own)
    played.moves.append(f"insert {tokens} tokens in {pages} pages, which raises")
    played.check()


def test_task_1_tree_sweep():
    for n in sizes(P=33, L=260, T=9):
        generator = np.random.default_rng(n.seed)
        played = Played(n.P, pages=2 * n.T * (n.L // n.P + n.T + 1), swept=True)
        for number, text in enumerate(texts_of(generator, 2 * n.T, n.L, n.turn(2, 50, 3))):
            if number % 2:
                played.match(*text)
            else:
                played.insert(*cut(text[: n.L], n.P))


short_texts = st.lists(st.integers(0, 1), max_size=9)


@property_test
@given(moves=st.lists(st.tuples(st.booleans(), short_texts), max_size=8), page=st.integers(1, 3))
def test_task_1_tree_any_sequences(moves, page):
    played = Played(page, pages=100)
    for new, text in moves:
        if new:
            played.insert(*cut(text, page))
        else:
            played.match(*text)
