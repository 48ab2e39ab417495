"""The widget of week 6, day 3: its passes are those of the solution's schedule, and it needs no mouse."""

import pytest
from book.generate.week6 import day3
from tests.book.widget import Widget

pytestmark = pytest.mark.of_the_course


def test_a_step_is_that_of_the_simulation(page):
    widget = Widget(page, "pipeline-slots")
    cases = [
        (i, stages, micro)
        for i in range(len(day3.ORDERS))
        for stages in range(1, day3.WIDGET["stages"] + 1)
        for micro in (1, 2, 3, 5, day3.WIDGET["micro"])
    ]
    views = [{"order": i, "stages": stages, "micro": micro, "time": 99} for i, stages, micro in cases]
    states, _ = widget.look(views, ".say")
    names = list(day3.ORDERS)
    for (i, stages, micro), state in zip(cases, states, strict=True):
        timeline = day3.timeline_of(names[i], stages, micro)
        assert state["end"] == timeline.length
        assert state["bubble"] == pytest.approx(timeline.bubble)
        assert state["most"] == timeline.held
        assert state["held"] == [0] * stages
        assert sum(state["idle"]) == pytest.approx(timeline.bubble * timeline.length * stages)


def test_what_is_held_at_each_moment(page):
    widget = Widget(page, "pipeline-slots")
    timeline = day3.timeline_of("1F1B")
    views = [{"time": time} for time in range(int(timeline.length) + 1)]
    states, _ = widget.look(views, ".say")
    for time, state in enumerate(states):
        for rank, slots in enumerate(timeline.stages):
            begun = sum(slot.what.forward and slot.start < time for slot in slots)
            assert state["held"][rank] == begun - sum(not slot.what.forward and slot.end <= time for slot in slots)


def test_a_step_by_keyboard(page):
    widget = Widget(page, "pipeline-slots")
    end = widget.change(time=99)["end"]
    widget.focus("#back")
    assert widget.press("Enter", "ArrowLeft")["at"] == end - 2
    assert "the stages hold" in widget.said()
    widget.focus("#stages")
    assert widget.press("ArrowRight")["stages"] == day3.STAGES + 1
    widget.focus("#micro")
    assert widget.press("End")["micro"] == day3.WIDGET["micro"]
    widget.focus("[name=order]")
    assert widget.press("ArrowDown")["order"] == 1
    widget.focus("#time")
    assert widget.press("Home")["at"] == 0
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("document.querySelector('pipeline-slots').state.at >= 1")
    widget.press("Enter")
    assert page.url == widget.address
