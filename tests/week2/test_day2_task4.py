"""Week 2, day 2, task 4: the roofline."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.reference_model import QWEN3, random_model
from tests.week2.counting import computed, is_a, moved

from tiny_llm.measure import roofline
from tiny_llm.measure.step import Storage
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes

MACHINES = [(32.0, 128.0), (128.0, 32.0), (3e10, 2.5e11)]
by_machine = pytest.mark.parametrize("limits", MACHINES, ids=str)


def same_value(actual, expected, what, case, size=0, swept=False):
    if type(actual) is not type(expected):
        wanted = type_words(expected)
        fail(Kind.TYPE, f"{what} gave {type_words(actual)}, expected {wanted}", case, size=size, swept=swept)
    close = math.isclose(actual, expected, rel_tol=1e-9) if isinstance(expected, float) else actual == expected
    if not close:
        lines = (f"expected  {expected}", f"got       {actual}")
        fail(Kind.VALUES, f"{what} is wrong", case, *lines, size=size, swept=swept)


def judged(bandwidth, rate, flops, size, seconds, swept=False):
    """Everything that the roofline says of some work."""
    case = f"bandwidth {bandwidth:g}, rate {rate:g}, FLOPs {flops}, bytes {size}, seconds {seconds:g}"
    with noted(case):
        roof = roofline.Roofline(bandwidth, rate)
        found = {
            "ridge": roof.ridge(),
            "least_seconds": roof.least_seconds(flops, size),
            "limit": roof.limit(flops, size),
        }
        reached = roof.reached(flops, size, seconds)
    moving, computing = size / bandwidth, flops / rate
    expected = {
        "ridge": rate / bandwidth,
        "least_seconds": max(moving, computing),
        "limit": "arithmetic" if computing > moving else "memory",
    }
    for what, value in expected.items():
        same_value(found[what], value, what, case, swept=swept)
    if not is_a(reached, roofline.Reached):
        fail(Kind.TYPE, f"reached gave {type_words(reached)}, expected a Reached", case, swept=swept)
    same_value(reached.bandwidth, size / bandwidth / seconds, "the bandwidth that was reached", case, swept=swept)
    same_value(reached.rate, flops / rate / seconds, "the rate that was reached", case, swept=swept)


@by_machine
@pytest.mark.parametrize(("flops", "size"), [(1000, 10), (10, 1000), (512, 128), (128, 512), (8, 8), (0, 24), (24, 0)])
def test_task_4_roofline_formula(limits, flops, size):
    """Among them work that takes equally long to move and to compute."""
    judged(*limits, flops, size, 160.0)


def turned(bandwidth, rate, work, most, words, swept=False):
    case = f"bandwidth {bandwidth:g}, rate {rate:g}, {words}, most {most}"
    steps = ((n, *work(n)) for n in range(1, most + 1))
    expected = next((n for n, flops, size in steps if flops / rate > size / bandwidth), None)
    with noted(case):
        found = roofline.Roofline(bandwidth, rate).turn(work, most)
    if type(found) is not type(expected) or found != expected:
        lines = (f"expected  {expected}", f"got       {type_words(found) if type(found) is not int else found}")
        fail(Kind.VALUES, "turn is wrong", case, *lines, size=most, swept=swept)


@pytest.mark.parametrize(("fixed", "each"), [(40, 0), (40, 1), (0, 1), (39, 0), (1000, 0), (40, 10)], ids=str)
def test_task_4_roofline_turn(fixed, each):
    """Work of n has 8 n FLOPs, and a number of bytes that is fixed, or grows with it, or both."""
    for most in (0, 1, 10, 11, 20):
        turned(2.0, 8.0, lambda n: (8 * n, fixed + each * n), most, f"FLOPs 8 n, bytes {fixed} + {each} n")


@by_machine
def test_task_4_roofline_turn_of_a_model(limits):
    """The rows of a batch of decode steps: weights are shared, caches are not."""
    config = {**QWEN3, "tie_word_embeddings": True}
    model = random_model(config, 1)

    def work(rows):
        return sum(computed(config, 1, 3, rows).values()), sum(moved(model, Storage(2), 1, 3, rows).values())

    table = {n: work(n) for n in range(1, 13)}
    turned(limits[0], limits[1], table.__getitem__, 12, "FLOPs and bytes of n rows of a small Qwen3")


@pytest.mark.parametrize("limits", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, -2.0)], ids=str)
def test_task_4_roofline_refuses_no_machine(limits):
    with raises_value_error(f"bandwidth {limits[0]:g}, rate {limits[1]:g}"):
        roofline.Roofline(*limits)


def test_task_4_roofline_sweep():
    for n in sizes(F=4200, B=4200, S=20):
        for bandwidth, rate in ((4.0, 8.0), (8.0, 4.0), (3e9, 7e10)):
            judged(bandwidth, rate, n.F, n.B, n.S / 4, swept=True)
        fixed = n.B
        turned(1.0, 2.0, lambda k, fixed=fixed: (3 * k, fixed), n.F, f"FLOPs 3 n, bytes {fixed}", swept=True)


@property_test
@given(flops=st.integers(1, 10**12), size=st.integers(1, 10**12), limits=st.sampled_from(MACHINES))
def test_task_4_roofline_no_faster_than_the_least(flops, size, limits):
    """In the least time, the larger of both shares is 1, and nothing exceeds it."""
    case = f"bandwidth {limits[0]:g}, rate {limits[1]:g}, FLOPs {flops}, bytes {size}, in the least seconds"
    with noted(case):
        roof = roofline.Roofline(*limits)
        reached = roof.reached(flops, size, roof.least_seconds(flops, size))
    same_value(float(max(reached.bandwidth, reached.rate)), 1.0, "the larger share", case)
