"""Week 3, day 5, task 2: what goes first.

The tree is held to a plain dictionary of all beginnings of texts, page by page, which drops the least recently used.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.played_tree import Played, texts_of
from tests.week3.prefixes import cut

from tiny_llm_course.testkit.errors import Kind
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

short_texts = st.lists(st.integers(0, 1), max_size=9)


def three_texts():
    """Two that part behind one page, and one by itself; of the first the oldest pages, of the last the newest."""
    played = Played()
    played.insert(10, 11, 12, 13, 14, 15)
    played.insert(10, 11, 20, 21)
    played.insert(30, 31, 32, 33)
    return played


@pytest.mark.parametrize("count", range(8))
def test_task_2_evict_oldest_first(count):
    """The last page of the oldest text goes first, and what all share goes after those who share it."""
    three_texts().evict(count)


def test_task_2_evict_one_by_one():
    played = three_texts()
    for _ in range(8):
        played.evict(1)


def test_task_2_evict_what_is_used_stays():
    """To be found is to be used."""
    played = three_texts()
    played.match(10, 11, 12, 13, 14, 15)
    played.evict(2)
    played.match(30, 31)
    played.evict(2)


def test_task_2_evict_only_what_was_used_stays():
    """A text of which only the beginning is found has an end that is old."""
    played = three_texts()
    played.match(10, 11, 12, 13)
    played.match(10, 11, 20, 21)
    played.match(30, 31, 32, 33)
    played.evict(1)
    played.evict(1)


def test_task_2_evict_not_what_is_held():
    """Two pages of a text are held by a request: the third can go, and so can the other texts."""
    played = three_texts()
    played.hold(10, 11, 12, 13)
    for count in (1, 2, 5):
        played.evict(count)


@pytest.mark.parametrize("among", [slice(0, 1), slice(1, 2), slice(2, 3)], ids=["first", "second", "third"])
def test_task_2_evict_nothing_before_what_is_held(among):
    """Of three pages one is held. What stands before it stays, although nobody holds it."""
    played = Played()
    played.insert(10, 11, 12, 13, 14, 15)
    played.hold(10, 11, 12, 13, 14, 15, among=among)
    played.evict(3)


def test_task_2_evict_a_held_leaf_keeps_its_parents():
    played = three_texts()
    played.hold(10, 11, 20, 21, among=slice(1, 2))
    played.evict(9)


def test_task_2_evict_past_what_is_held():
    """The text that was used least recently is held, and the others can go."""
    played = three_texts()
    played.hold(10, 11, 12, 13, 14, 15, among=slice(2, 3))
    played.match(10, 11, 20, 21)
    played.match(30, 31, 32, 33)
    played.evict(2)
    played.evict(9)


def test_task_2_evict_a_held_beginning():
    """The parent is held, and both children go."""
    played = three_texts()
    played.hold(10, 11)
    played.evict(3)
    played.evict(9)


def test_task_2_evict_leaves_part_of_an_edge():
    """What is left of an edge is found, and goes on."""
    played = Played()
    played.insert(*range(10, 20))
    played.evict(2)
    played.match(*range(10, 20))
    played.insert(*range(10, 20))
    played.evict(1)
    played.insert(*range(10, 14), 50, 51)
    played.evict(9)


def test_task_2_evict_all():
    """Every page is free, and the tree begins anew."""
    played = three_texts()
    played.evict(6)
    if played.pool.free != played.pool.pages or played.tree.root.children:
        played.fail(Kind.VALUES, "the tree is not empty", f"free      {played.pool.free} of {played.pool.pages} pages")
    played.insert(10, 11)
    played.match(10, 11)


@pytest.mark.parametrize("count", [0, -1, -5])
def test_task_2_evict_none(count):
    three_texts().evict(count)
    Played().evict(count)


def test_task_2_evict_an_empty_tree():
    Played().evict(3)


def test_task_2_evict_does_not_use():
    """What an eviction looks at counts as used by nobody."""
    played = three_texts()
    for _ in range(3):
        played.evict(1)
        played.match(30, 31, 32, 33)


def test_task_2_evict_sweep():
    for n in sizes(P=17, L=120, T=9):
        generator = np.random.default_rng(n.seed)
        played = Played(n.P, pages=2 * n.T * (n.L // n.P + n.T + 1), swept=True)
        for number, text in enumerate(texts_of(generator, 2 * n.T, n.L, n.turn(2, 50, 3))):
            match number % 4:
                case 0 | 2:
                    played.insert(*cut(text[: n.L], n.P))
                case 1:
                    played.hold(*text, among=slice(0, n.turn(1, 3, 0)))
                case 3:
                    played.evict(n.turn(1, 2, n.L))
        played.evict(played.pool.pages)


actions = st.sampled_from(["insert", "match", "hold", "evict"])


@property_test
@given(moves=st.lists(st.tuples(actions, short_texts), max_size=12), page=st.integers(1, 2))
def test_task_2_evict_any_texts(moves, page):
    played = Played(page, pages=150)
    for action, text in moves:
        match action:
            case "insert":
                played.insert(*cut(text, page))
            case "match":
                played.match(*text)
            case "hold":
                played.hold(*text)
            case "evict":
                played.evict(len(text) // 2)
    played.evict(150)
    played.pool.drop(played.held)
    played.held.clear()
    played.evict(150)
    if played.pool.free != played.pool.pages:
        played.fail(Kind.VALUES, f"{played.pool.free} of {played.pool.pages} pages are free at the end")
