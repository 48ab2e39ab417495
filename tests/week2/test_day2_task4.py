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


def judged(bandwidth, peak_flops, flops, size, seconds, swept=False):
    """Check all results of the roofline for one workload."""
    case = f"bandwidth {bandwidth:g}, peak_flops {peak_flops:g}, FLOPs {flops}, bytes {size}, seconds {seconds:g}"
    with noted(case):
        roof = roofline.Roofline(bandwidth, peak_flops)
        found = {
            "ridge": roof.ridge(),
            "least_seconds": roof.least_seconds(flops, size),
            "limit": roof.limit(flops, size),
        }
        used = roof.utilization(flops, size, seconds)
    moving, computing = size / bandwidth, flops / peak_flops
    expected = {
        "ridge": peak_flops / bandwidth,
        "least_seconds": max(moving, computing),
        "limit": "arithmetic" if computing > moving else "memory",
    }
    for what, value in expected.items():
        same_value(found[what], value, what, case, swept=swept)
    if not is_a(used, roofline.Utilization):
        fail(Kind.TYPE, f"utilization gave {type_words(used)}, expected a Utilization", case, swept=swept)
    same_value(used.bandwidth, size / bandwidth / seconds, "utilization's bandwidth", case, swept=swept)
    same_value(used.compute, flops / peak_flops / seconds, "utilization's compute", case, swept=swept)


@by_machine
@pytest.mark.parametrize(("flops", "size"), [(1000, 10), (10, 1000), (512, 128), (128, 512), (8, 8), (0, 24), (24, 0)])
def test_task_4_roofline_formula(limits, flops, size):
    """Includes work with equal memory and compute times."""
    judged(*limits, flops, size, 160.0)


def crosses(bandwidth, peak_flops, work, most, words, swept=False):
    case = f"bandwidth {bandwidth:g}, peak_flops {peak_flops:g}, {words}, most {most}"
    steps = ((n, *work(n)) for n in range(1, most + 1))
    expected = next((n for n, flops, size in steps if flops / peak_flops > size / bandwidth), None)
    with noted(case):
        found = roofline.Roofline(bandwidth, peak_flops).crossover(work, most)
    if type(found) is not type(expected) or found != expected:
        lines = (f"expected  {expected}", f"got       {type_words(found) if type(found) is not int else found}")
        fail(Kind.VALUES, "crossover is wrong", case, *lines, size=most, swept=swept)


@pytest.mark.parametrize(("fixed", "each"), [(40, 0), (40, 1), (0, 1), (39, 0), (1000, 0), (40, 10)], ids=str)
def test_task_4_roofline_crossover(fixed, each):
    """Work of size n has 8 n FLOPs and bytes that are fixed, proportional to n, or both."""
    for most in (0, 1, 10, 11, 20):
        crosses(2.0, 8.0, lambda n: (8 * n, fixed + each * n), most, f"FLOPs 8 n, bytes {fixed} + {each} n")


@by_machine
def test_task_4_roofline_crossover_of_a_model(limits):
    """Batched decoding: weights are shared by the rows, caches are not."""
    config = {**QWEN3, "tie_word_embeddings": True}
    model = random_model(config, 1)

    def work(rows):
        return sum(computed(config, 1, 3, rows).values()), sum(moved(model, Storage(2), 1, 3, rows).values())

    table = {n: work(n) for n in range(1, 13)}
    crosses(limits[0], limits[1], table.__getitem__, 12, "FLOPs and bytes of n rows of a small Qwen3")


@pytest.mark.parametrize(
    "limits", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, -2.0), (0.0, 0.0), (-1.0, -2.0)], ids=str
)
def test_task_4_roofline_refuses_no_machine(limits):
    with raises_value_error(f"bandwidth {limits[0]:g}, peak_flops {limits[1]:g}"):
        roofline.Roofline(*limits)


def test_task_4_roofline_sweep():
    for n in sizes(F=4200, B=4200, S=20):
        for bandwidth, peak_flops in ((4.0, 8.0), (8.0, 4.0), (3e9, 7e10)):
            judged(bandwidth, peak_flops, n.F, n.B, n.S / 4, swept=True)
        fixed = n.B
        crosses(1.0, 2.0, lambda k, fixed=fixed: (3 * k, fixed), n.F, f"FLOPs 3 n, bytes {fixed}", swept=True)


@property_test
@given(flops=st.integers(1, 10**12), size=st.integers(1, 10**12), limits=st.sampled_from(MACHINES))
def test_task_4_roofline_minimum_time(flops, size, limits):
    """At the minimum time, the larger fraction is 1."""
    case = f"bandwidth {limits[0]:g}, peak_flops {limits[1]:g}, FLOPs {flops}, bytes {size}, in the minimum time"
    with noted(case):
        roof = roofline.Roofline(*limits)
        used = roof.utilization(flops, size, roof.least_seconds(flops, size))
    same_value(float(max(used.bandwidth, used.compute)), 1.0, "the larger fraction", case)
