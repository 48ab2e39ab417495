"""Task 6.3.1, the 1F1B schedule, checked by simulating all stages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week6.formulas_day3 import fastest, forward_passes_before

from tiny_llm.pipeline import passes, schedule
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different, raises_value_error
from tiny_llm_course.testkit.properties import property_test


def orders_of(stages, micro_batches):
    """Return each stage's passes, which are a list of Pass."""
    with noted(f"{stages} stages, {micro_batches} micro-batches"):
        orders = [schedule.one_forward_one_backward(rank, stages, micro_batches) for rank in range(stages)]
    for rank, order in enumerate(orders):
        if type(order) is not list or not all(type(each).__name__ == "Pass" for each in order):
            case = f"rank {rank} of {stages} stages, {micro_batches} micro-batches"
            fail(Kind.TYPE, "expected a list of Pass", case, f"got       {order!r}"[:100])
    return orders


def words(order):
    text = " ".join(f"{'F' if forward else 'B'}{m}" for forward, m in order)
    return text if len(text) < 90 else f"{text[:86]} ..."


def check_order(stages, micro_batches):
    """Check each stage's passes, one after another; then all stages together."""
    orders = orders_of(stages, micro_batches)
    for rank, order in enumerate(orders):
        case = f"rank {rank} of {stages} stages, {micro_batches} micro-batches"
        wanted = sorted((forward, m) for forward in (True, False) for m in range(micro_batches))
        if sorted(map(tuple, order)) != wanted:
            lines = (f"expected  each of {2 * micro_batches} passes once", f"got       {words(order)}")
            fail(Kind.SHAPE, "wrong passes", case, *lines)
        for forward, name in ((True, "forward"), (False, "backward")):
            found = [m for kind, m in order if kind == forward]
            fail_if_different(f"the order of the {name} passes is wrong", list(range(micro_batches)), found, case)
        ahead = [forward for forward, _ in order].index(False)
        headline = "wrong number of forward passes before the first backward pass"
        fail_if_different(headline, forward_passes_before(rank, stages, micro_batches), ahead, case)
        held = passes.most_held(order)
        if held > min(stages - rank, micro_batches):
            lines = (f"expected  at most {min(stages - rank, micro_batches)}", f"got       {held} in {words(order)}")
            fail(Kind.VALUES, "too many micro-batches are held", case, *lines)
    case = f"{stages} stages, {micro_batches} micro-batches"
    with noted(case):
        timeline = passes.simulate(orders)
    fail_if_different("the length of a step is wrong", fastest(stages, micro_batches), timeline.length, case)


@pytest.mark.parametrize(("stages", "micro_batches"), [(4, 8), (3, 7), (2, 5)], ids=str)
def test_task_1_schedule_many_micro_batches(stages, micro_batches):
    check_order(stages, micro_batches)


@pytest.mark.parametrize("micro_batches", [1, 2, 3, 4])
def test_task_1_schedule_few_micro_batches(micro_batches):
    """No more micro-batches than stages: the warm-up of some stages has all of them."""
    check_order(4, micro_batches)


@pytest.mark.parametrize("micro_batches", [1, 2, 5])
def test_task_1_schedule_one_stage(micro_batches):
    """Each forward pass is followed by its backward pass."""
    check_order(1, micro_batches)


@pytest.mark.parametrize(("rank", "order"), [
    (0, "F0 F1 F2 B0 F3 B1 B2 B3"),
    (1, "F0 F1 B0 F2 B1 F3 B2 B3"),
    (2, "F0 B0 F1 B1 F2 B2 F3 B3"),
])  # fmt: skip
def test_task_1_schedule_three_stages(rank, order):
    """All three stages, as in the chapter."""
    case = f"rank {rank} of 3 stages, 4 micro-batches"
    with noted(case):
        found = schedule.one_forward_one_backward(rank, 3, 4)
    fail_if_different("the order is wrong", order, words(found), case)


def test_task_1_schedule_bubble():
    """(P - 1) / (M + P - 1), as in GPipe's order."""
    for stages, micro_batches in ((2, 1), (2, 4), (4, 4), (4, 12)):
        case = f"{stages} stages, {micro_batches} micro-batches"
        orders = orders_of(stages, micro_batches)
        with noted(case):
            found = passes.simulate(orders).bubble
        expected = (stages - 1) / (micro_batches + stages - 1)
        if abs(found - expected) > 1e-9:
            fail(Kind.VALUES, "the bubble is wrong", case, f"expected  {expected:.4f}", f"got       {found:.4f}")


def test_task_1_schedule_sweep():
    """All numbers of stages and micro-batches up to 9, and some large ones."""
    for stages in range(1, 10):
        for micro_batches in range(1, 10):
            check_order(stages, micro_batches)
    for stages, micro_batches in ((16, 64), (33, 2), (2, 257)):
        check_order(stages, micro_batches)


@property_test
@given(stages=st.integers(1, 12), micro_batches=st.integers(1, 24))
def test_task_1_schedule_gpipe_is_no_faster(stages, micro_batches):
    case = f"{stages} stages, {micro_batches} micro-batches"
    orders = orders_of(stages, micro_batches)
    with noted(case):
        found = passes.simulate(orders).length
    wanted = passes.simulate([passes.gpipe(rank, stages, micro_batches) for rank in range(stages)]).length
    fail_if_different("the step is longer or shorter than in GPipe's order", wanted, found, case)


@pytest.mark.parametrize(("rank", "stages", "micro_batches", "words"), [
    (4, 4, 8, ("4",)), (-1, 4, 8, ("-1", "4")), (0, 3, 0, ("0",)), (1, 2, -2, ("-2",)),
])  # fmt: skip
def test_task_1_schedule_refuses(rank, stages, micro_batches, words):
    with raises_value_error(f"rank {rank}, {stages} stages, {micro_batches} micro-batches", *words):
        schedule.one_forward_one_backward(rank, stages, micro_batches)
