"""Week 3, day 3, task 1: the pool.

A pool is played scripts of calls. What comes of each call is held to a plain model of lists and counts.
"""

from functools import partial

from hypothesis import given
from hypothesis import strategies as st
from tests.week3.played import (
    plain_pool,
    play_pool,
    played_alike,
    pool_script,
)

from tiny_llm.paged import pool
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes as drawn_sizes
from tiny_llm_course.testkit.texts import same_number

seeds = st.integers(0, 9999)


def pool_plays(pages, *script):
    play = partial(play_pool, lambda count: pool.PagePool(count))
    played_alike(play, plain_pool, {"pages": pages}, script)


def test_task_1_pool_takes_the_lowest():
    """Also of those that have come back, in whatever order."""
    pool_plays(6, ("take", 2), ("take", 0), ("take", 3), ("drop", [3, 0, 2]), ("take", 2), ("take", 2), ("take", 0))


def test_task_1_pool_gives_all_or_nothing():
    pool_plays(4, ("take", 5), ("take", 3), ("take", 2), ("take", 1), ("take", 1), ("take", 0))


def test_task_1_pool_shares():
    """A page is free when the last holder has dropped it, and no sooner."""
    pool_plays(4, ("take", 3), ("hold", [1, 2]), ("hold", [1]), ("drop", [0, 1, 2]), ("take", 1), ("drop", [1, 2]))
    pool_plays(3, ("take", 2), ("hold", [0]), ("drop", [0]), ("drop", [0]), ("take", 2))


def test_task_1_pool_counts_twice_what_stands_there_twice():
    pool_plays(3, ("take", 2), ("hold", [1, 1]), ("drop", [1, 1]), ("drop", [1]), ("take", 2))
    pool_plays(4, ("take", 3), ("hold", [1]), ("drop", [1, 0, 1]), ("take", 2), ("take", 1))


def test_task_1_pool_refuses_to_drop_what_nobody_holds():
    """And nothing has changed, wherever in the list it stands, nor if it is there once and dropped twice."""
    pool_plays(4, ("take", 3), ("drop", [1]), ("drop", [1]), ("drop", [0, 1]), ("drop", [1, 2]), ("take", 2))
    pool_plays(4, ("take", 3), ("drop", [2, 2]), ("drop", [0, 2, 1, 2]), ("hold", [2]), ("drop", [2, 2, 2]))


def test_task_1_pool_refuses_to_share_what_is_free():
    pool_plays(4, ("take", 2), ("hold", [2]), ("hold", [0, 3]), ("hold", [3, 1]), ("take", 2))


def test_task_1_pool_of_iterators():
    """Pages may come as something that can be gone through once."""
    pool_plays(4, ("take", 4), ("hold", (0, 1)), ("drop", (0, 1, 2)), ("drop", (1, 2)), ("drop", (3, 1, 0)))


def test_task_1_pool_says_what_is_wrong():
    case = "5 pages, take(3), take(3)"
    with noted(case):
        one = pool.PagePool(5)
        one.take(3)
    with raises_value_error(case, "3", "2"):
        one.take(3)
    try:
        one.take(3)
    except ValueError as error:
        if (kind := type(error).__name__) != "OutOfPages":
            fail(Kind.NO_ERROR, f"raised {kind}, expected OutOfPages", case)
    with raises_value_error("5 pages, take(3), drop([0, 4])", "4"):
        one.drop([0, 4])
    with raises_value_error("5 pages, take(3), hold([0, 4])", "4"):
        one.hold([0, 4])
    same_number(one.pages, 5, "pages", "5 pages, take(3)")


def test_task_1_pool_keeps_no_list():
    """Who changes the list that take has given changes no pool; and two pools know nothing of one another."""
    case = "two pools of 3, take(2) of the first, and the list is emptied"
    with noted(case):
        one, other = pool.PagePool(3), pool.PagePool(3)
        one.take(2).clear()
        counts = [one.free, other.free, one.holders(0), other.holders(0)]
    if counts != [1, 3, 1, 0]:
        lines = "expected  [1, 3, 1, 0]", f"got       {counts}"
        fail(Kind.VALUES, "free of both, and the holders of page 0 in both, are wrong", case, *lines)


@property_test
@given(pages=st.integers(1, 6), calls=st.integers(1, 20), seed=seeds)
def test_task_1_pool_any_calls(pages, calls, seed):
    pool_plays(pages, *pool_script(seed, pages, calls))


def test_task_1_pool_sweep():
    for n in drawn_sizes(P=1100, C=40):
        pool_plays(n.P, *pool_script(n.seed, n.P, n.C))
