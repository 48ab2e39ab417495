"""Week 3, day 5, task 2: eviction.

The tree is checked against a plain dictionary of all prefixes, page by page, which evicts the least recently used.
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
    """Two sequences that diverge after one page, and one by itself; the oldest last page is evicted first."""
    played = Played()
    played.insert(10, 11, 12, 13, 14, 15)
    played.insert(10, 11, 20, 21)
    played.insert(30, 31, 32, 33)
    return played


@pytest.mark.parametrize("count", range(8))
def test_task_2_evict_oldest_first(count):
    """The oldest sequence's last page is evicted first, and the shared pages after those who share them."""
    three_texts().evict(count)


def test_task_2_evict_one_by_one():
    played = three_texts()
    for _ in range(8):
        played.evict(1)


def test_task_2_evict_keeps_what_is_used():
    """A match counts as an access."""
    played = three_texts()
    played.match(10, 11, 12, 13, 14, 15)
    played.evict(2)
    played.match(30, 31)
    played.evict(2)


def test_task_2_evict_keeps_only_what_is_used():
    """A partly matched sequence keeps an old end."""
    played = three_texts()
    played.match(10, 11, 12, 13)
    played.match(10, 11, 20, 21)
    played.match(30, 31, 32, 33)
    played.evict(1)
    played.evict(1)


def test_task_2_evict_keeps_held_pages():
    """A request holds two pages of a sequence: the third can be evicted, and so can the other sequences."""
    played = three_texts()
    played.hold(10, 11, 12, 13)
    for count in (1, 2, 5):
        played.evict(count)


@pytest.mark.parametrize("among", [slice(0, 1), slice(1, 2), slice(2, 3)], ids=["first", "second", "third"])
def test_task_2_evict_keeps_pages_before_held_ones(among):
    """One of three pages is held. The pages before it stay, although no request holds them."""
    played = Played()
    played.insert(10, 11, 12, 13, 14, 15)
    played.hold(10, 11, 12, 13, 14, 15, among=among)
    played.evict(3)


def test_task_2_evict_a_held_leaf_keeps_its_parents():
    played = three_texts()
    played.hold(10, 11, 20, 21, among=slice(1, 2))
    played.evict(9)


def test_task_2_evict_skips_held_leaves():
    """The least recently used sequence is held, and the others can be evicted."""
    played = three_texts()
    played.hold(10, 11, 12, 13, 14, 15, among=slice(2, 3))
    played.match(10, 11, 20, 21)
    played.match(30, 31, 32, 33)
    played.evict(2)
    played.evict(9)


def test_task_2_evict_a_held_prefix():
    """The parent is held, and both children are evicted."""
    played = three_texts()
    played.hold(10, 11)
    played.evict(3)
    played.evict(9)


def test_task_2_evict_leaves_part_of_a_node():
    """What is left of a node still matches and can be extended."""
    played = Played()
    played.insert(*range(10, 20))
    played.evict(2)
    played.match(*range(10, 20))
    played.insert(*range(10, 20))
    played.evict(1)
    played.insert(*range(10, 14), 50, 51)
    played.evict(9)


def test_task_2_evict_all():
    """Every page is free, and the tree starts again."""
    played = three_texts()
    played.evict(6)
    if played.pool.num_free != played.pool.pages or played.tree.root.children:
        played.fail(
            Kind.VALUES, "the tree is not empty", f"free      {played.pool.num_free} of {played.pool.pages} pages"
        )
    played.insert(10, 11)
    played.match(10, 11)


@pytest.mark.parametrize("count", [0, -1, -5])
def test_task_2_evict_none(count):
    three_texts().evict(count)
    Played().evict(count)


def test_task_2_evict_an_empty_tree():
    Played().evict(3)


def test_task_2_evict_is_no_access():
    """The nodes that an eviction looks at do not count as accessed."""
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
def test_task_2_evict_any_sequences(moves, page):
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
    played.pool.release(played.held)
    played.held.clear()
    played.evict(150)
    if played.pool.num_free != played.pool.pages:
        played.fail(Kind.VALUES, f"{played.pool.num_free} of {played.pool.pages} pages are free at the end")
