"""The widget of day 7.4: what it shows is what the recorded programs did, and it needs no mouse."""

import pytest
from book.generate.week7.day4 import ATTACKS, PROGRAMS, runs_of
from tests.book.widget import Widget
from tests.week7.scenes import SECRET

from tiny_llm_course.testkit.variants import load_solution

pytestmark = pytest.mark.of_the_course


def test_every_run(page):
    load_solution()
    widget = Widget(page, "race-steps")
    for program, name in enumerate(PROGRAMS):
        for attack, what in enumerate(ATTACKS):
            runs = runs_of(name, what)
            for moment, (steps, end) in enumerate(runs):
                state = widget.change(program=program, attack=attack, moment=moment, step=99)
                assert not state["late"]
                assert [tuple(step) for step in state["steps"]] == steps
                assert (state["end"], state["at"], state["done"]) == (end, len(steps), True)
                assert state["escaped"] == (SECRET in end)
                assert (name == "your root") <= (not state["escaped"])
            state = widget.change(moment=99)  # after the last call of the shorter programs
            assert state["moment"] == max(len(runs_of(each, what)) for each in PROGRAMS) - 1
            assert state["late"] == (state["moment"] >= len(runs))
            if state["late"]:
                assert ([tuple(step) for step in state["steps"]], state["end"]) == runs[0]
                assert widget.said() == "It has ended before the other process acts."


def test_what_is_said(page):
    widget = Widget(page, "race-steps")
    widget.change(program=0, attack=0, moment=2, step=2)
    assert widget.said() == "Another process: src becomes a link to ../outside."
    widget.change(step=3)
    assert widget.said() == "It has opened a file outside the workspace."
    widget.change(program=2, step=99)
    assert widget.said() == "It has opened nothing outside the workspace."


def test_steps_by_keyboard(page):
    widget = Widget(page, "race-steps")
    widget.change(program=2, step=0)
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight")["at"] == 2
    assert widget.press("ArrowLeft")["at"] == 1
    widget.focus("#moment")
    assert widget.press("End")["moment"] == 5
    assert widget.press("Home")["moment"] == 0
    widget.focus("[name=attack]")
    assert widget.press("ArrowDown")["attack"] == 1
    assert page.url == widget.address
