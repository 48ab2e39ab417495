"""Week 3, day 7, task 2: the gate.

A script of calls is replayed with a clock that advances only when the script says so.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.gate_script import passes, passes_by_formula, random_ops

from tiny_llm.server import backpressure
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_error
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes
from tiny_llm_course.testkit.texts import again, same_ids


def check_passes(most, ops):
    shown = ", ".join(f"{at:g} s {what} {count}" for at, what, count in ops[-8:])
    case = f"max_inside {most}; {'.. ' * (len(ops) > 8)}{shown}"
    same_ids(again(lambda: passes(backpressure.Gate, most, ops), case), passes_by_formula(most, ops), case, "answers")


def test_task_2_gate_max_inside():
    """Two may be inside; before the first departure, a slot is assumed to take a second."""
    ops = [(0, "enter", 1), (0, "enter", 1), (1, "enter", 1), (9, "leave", 1), (9, "enter", 1)]
    same_ids(
        again(lambda: passes(backpressure.Gate, 2, ops), str(ops)),
        [1, 2, -1, 1, 2],
        "max_inside 2: two fit, then none",
        "answers",
    )


def test_task_2_gate_rate():
    """One leaves every 4 seconds. At 20 s, four seconds after the last, a slot takes (20 - 4) / 4 s."""
    ops = [(0, "enter", 1)] * 5 + [(4 * i, what, 1) for i in (1, 2, 3, 4) for what in ("leave", "enter")]
    case = "max_inside 5, one leaves and one enters at 4, 8, 12 and 16 s, another one arrives at 20 s"
    found = again(lambda: passes(backpressure.Gate, 5, [*ops, (20, "enter", 1)]), case)
    same_ids(found[-1:], [-4], f"the last of: {case}", "answers")


@pytest.mark.parametrize(("at", "expected"), [(20.0, 5), (36.0, 9), (100.0, 25), (240.0, 60), (1000.0, 40)])
def test_task_2_gate_stalled(at, expected):
    """The longer no request leaves, the longer it takes; above a minute, it is spread."""
    ops = [(0.0, "enter", 1)] * 6 + [(float(i), "leave", 1) for i in (0, 4, 8, 12)] + [(12.0, "enter", 1)] * 4
    case = f"max_inside 6, four leave at 0, 4, 8 and 12 s, four enter, another one arrives at {at:g} s"
    found = again(lambda: passes(backpressure.Gate, 6, [*ops, (at, "enter", 1)]), case)
    same_ids(found[-1:], [-expected], f"the last of: {case}", "answers")


def test_task_2_gate_promises():
    """Clients rejected at the same time get different times; one whose time is over no longer counts."""
    ops = [(0.0, "enter", 1)] * 2 + [(8.0, "leave", 2), (8.0, "enter", 2)]
    ops += [(16.0, "enter", 1), (16.0, "enter", 1), (16.0, "enter", 2), (21.0, "enter", 1)]
    case = "max_inside 2, two leave at 8 s, two enter; rejected: 1, 1 and 2 at 16 s, 1 at 21 s"
    found = again(lambda: passes(backpressure.Gate, 2, ops), case)
    same_ids(found[4:], [-4, -8, -16, -26], f"the last four of: {case}", "answers")


def test_task_2_gate_promise_ends_on_time():
    """A second after the first one was rejected, for a second, another one arrives."""
    ops = [(0.0, "enter", 1), (0.0, "enter", 1), (1.0, "enter", 1)]
    case = "max_inside 1; one is inside, the next is rejected for 1 s at 0 s, and another one arrives at 1 s"
    same_ids(again(lambda: passes(backpressure.Gate, 1, ops), case), [1, -1, -1], case, "answers")


def test_task_2_gate_promise_beyond_a_minute():
    """The one rejected at 100 s has 100 s, though its Retry-After is 40. At 170 s its place is still promised."""
    ops = [(0.0, "enter", 16), (0.0, "leave", 1), (0.0, "enter", 1), (100.0, "enter", 1), (150.0, "leave", 16)]
    ops += [(150.0, "enter", 16), (170.0, "enter", 1)]
    case = (
        "max_inside 16; one leaves at 0 s, one is rejected at 100 s, 16 leave at 150 s and enter, one arrives at 170 s"
    )
    found = again(lambda: passes(backpressure.Gate, 16, ops), case)
    same_ids(found[-1:], [-3], f"the last of: {case}", "answers")


def test_task_2_gate_promise_shorter_than_an_older_one():
    """The one rejected at 100 s has 100 s. The one rejected at 160 s has 1.25 s, so at 170 s it no longer counts."""
    ops = [(0.0, "enter", 16), (0.0, "leave", 1), (0.0, "enter", 1), (100.0, "enter", 1), (150.0, "leave", 16)]
    ops += [(150.0, "enter", 16), (160.0, "enter", 1), (170.0, "enter", 1)]
    case = (
        "max_inside 16; one leaves at 0 s, one is rejected at 100 s, 16 leave at 150 s and enter; "
        "one arrives at 160 s and one at 170 s"
    )
    found = again(lambda: passes(backpressure.Gate, 16, ops), case)
    same_ids(found[-2:], [-2, -3], f"the last two of: {case}", "answers")


def test_task_2_gate_spreads_long_estimates():
    """A departure takes 55 s: the four estimates are 55, 110, 165 and 220 s, and no two answers are the same."""
    ops = [(0.0, "enter", 8), (0.0, "leave", 1), (0.0, "enter", 1), *[(55.0, "enter", 1)] * 4]
    case = "max_inside 8, one leaves at 0 s, one enters, and four arrive at 55 s"
    same_ids(again(lambda: passes(backpressure.Gate, 8, ops), case)[3:], [-55, -50, -45, -40], case, "answers")


def test_task_2_gate_groups():
    """All of a group or none; a group above max_inside is rejected for good."""
    ops = [
        (0.0, "enter", 3),
        (0.0, "enter", 2),
        (0.0, "enter", 1),
        (0.0, "enter", 5),
        (2.0, "leave", 4),
        (2.0, "enter", 4),
    ]
    case = "max_inside 4; groups of 3, 2, 1 and 5, then 4 leave and a group of 4 arrives"
    same_ids(again(lambda: passes(backpressure.Gate, 4, ops), case), [3, -1, 4, -1000, 0, 4], case, "answers")
    with raises_error(ValueError, "max_inside 4, a group of 5", "4"):
        backpressure.Gate(4).enter(5)


def test_task_2_gate_promises_nothing_to_too_large_groups():
    """A group that can never enter is promised no capacity."""
    ops = [(0.0, "enter", 2), (0.0, "enter", 5), (0.0, "enter", 1)]
    case = "max_inside 2, both inside, a group of 5 arrives, and then one"
    same_ids(again(lambda: passes(backpressure.Gate, 2, ops), case), [2, -1000, -1], case, "answers")


def test_task_2_gate_by_its_own_clock():
    """The defaults: its own clock, and one request at a time."""
    case = "max_inside 1, no clock"
    with noted(case):
        gate = backpressure.Gate(1)
        gate.enter()
        try:
            gate.enter()
        except Exception as error:
            seconds = getattr(error, "seconds", None)
            if type(error).__name__ != "TooBusy" or type(seconds) is not int:
                fail(Kind.NO_ERROR, f"raised {type(error).__name__}, expected TooBusy with whole seconds", case)
        else:
            fail(Kind.NO_ERROR, "no error was raised, expected TooBusy", case)
        gate.leave()
        gate.enter()


def test_task_2_gate_sweep():
    for n in sizes(M=64, T=64):
        check_passes(n.M, random_ops(n.seed, n.M, n.T))


@property_test
@given(most=st.integers(1, 4), seed=st.integers(0, 999))
def test_task_2_gate_any_script(most, seed):
    check_passes(most, random_ops(seed, most, 30))
