"""Week 3, day 3, task 1: the page pool.

A pool replays scripts of calls. The results of each call are checked against a plain model of lists and counts.
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


def test_task_1_pool_allocates_the_lowest():
    """Also of pages that were freed, in any order."""
    pool_plays(
        6,
        ("allocate", 2),
        ("allocate", 0),
        ("allocate", 3),
        ("release", [3, 0, 2]),
        ("allocate", 2),
        ("allocate", 2),
        ("allocate", 0),
    )


def test_task_1_pool_allocates_all_or_nothing():
    pool_plays(4, ("allocate", 5), ("allocate", 3), ("allocate", 2), ("allocate", 1), ("allocate", 1), ("allocate", 0))


def test_task_1_pool_shares():
    """A page is free when its last reference is released, and no sooner."""
    pool_plays(
        4,
        ("allocate", 3),
        ("retain", [1, 2]),
        ("retain", [1]),
        ("release", [0, 1, 2]),
        ("allocate", 1),
        ("release", [1, 2]),
    )
    pool_plays(3, ("allocate", 2), ("retain", [0]), ("release", [0]), ("release", [0]), ("allocate", 2))


def test_task_1_pool_counts_duplicates():
    pool_plays(3, ("allocate", 2), ("retain", [1, 1]), ("release", [1, 1]), ("release", [1]), ("allocate", 2))
    pool_plays(4, ("allocate", 3), ("retain", [1]), ("release", [1, 0, 1]), ("allocate", 2), ("allocate", 1))


def test_task_1_pool_refuses_to_release_free_pages():
    """Nothing changes, wherever the page is in the list, even if it is held once and released twice."""
    pool_plays(
        4,
        ("allocate", 3),
        ("release", [1]),
        ("release", [1]),
        ("release", [0, 1]),
        ("release", [1, 2]),
        ("allocate", 2),
    )
    pool_plays(
        4, ("allocate", 3), ("release", [2, 2]), ("release", [0, 2, 1, 2]), ("retain", [2]), ("release", [2, 2, 2])
    )


def test_task_1_pool_refuses_to_retain_free_pages():
    pool_plays(4, ("allocate", 2), ("retain", [2]), ("retain", [0, 3]), ("retain", [3, 1]), ("allocate", 2))


def test_task_1_pool_of_iterators():
    """Pages may come as a one-shot iterator."""
    pool_plays(
        4, ("allocate", 4), ("retain", (0, 1)), ("release", (0, 1, 2)), ("release", (1, 2)), ("release", (3, 1, 0))
    )


def test_task_1_pool_error_messages():
    case = "5 pages, allocate(3), allocate(3)"
    with noted(case):
        one = pool.PagePool(5)
        one.allocate(3)
    with raises_value_error(case, "3", "2"):
        one.allocate(3)
    try:
        one.allocate(3)
    except ValueError as error:
        if (kind := type(error).__name__) != "OutOfPages":
            fail(Kind.NO_ERROR, f"raised {kind}, expected OutOfPages", case)
    with raises_value_error("5 pages, allocate(3), release([0, 4])", "4"):
        one.release([0, 4])
    with raises_value_error("5 pages, allocate(3), retain([0, 4])", "4"):
        one.retain([0, 4])
    with noted("9 pages, allocate(9), release([7])"):
        other = pool.PagePool(9)
        other.allocate(9)
        other.release([7])
    for name, call in (("release", other.release), ("retain", other.retain)):
        with raises_value_error(f"9 pages, allocate(9), release([7]), {name}([6, 7, 8])", "7"):
            call([6, 7, 8])
    with raises_value_error("9 pages, allocate(9), release([7]), release([5, 8, 8, 6])", "8"):
        other.release([5, 8, 8, 6])
    same_number(one.pages, 5, "pages", "5 pages, allocate(3)")


def test_task_1_pool_returns_a_new_list():
    """Changing the returned list does not change the pool, and two pools are independent."""
    case = "two pools of 3, allocate(2) of the first, and the list is emptied"
    with noted(case):
        one, other = pool.PagePool(3), pool.PagePool(3)
        one.allocate(2).clear()
        counts = [one.num_free, other.num_free, one.ref_count(0), other.ref_count(0)]
    if counts != [1, 3, 1, 0]:
        lines = "expected  [1, 3, 1, 0]", f"got       {counts}"
        fail(Kind.VALUES, "wrong num_free of both pools, and ref_count(0) of both", case, *lines)


@property_test
@given(pages=st.integers(1, 6), calls=st.integers(1, 20), seed=seeds)
def test_task_1_pool_any_calls(pages, calls, seed):
    pool_plays(pages, *pool_script(seed, pages, calls))


def test_task_1_pool_sweep():
    for n in drawn_sizes(P=1100, C=40):
        pool_plays(n.P, *pool_script(n.seed, n.P, n.C))
