"""The widget of day 7.6: its numbers are those of the solution, and it needs no mouse."""

import runpy

import pytest
from tests.book.widget import Widget

from tiny_llm_course.paths import BOOK

pytestmark = pytest.mark.of_the_course


def test_numbers_of_the_solution(page):
    widget = Widget(page, "pass-power")
    script = runpy.run_path(str(BOOK / "generate/week7/day6.py"))
    for number, name in enumerate(script["AGENTS"]):
        scores = script["scores_of"](script["simulated"](name))
        for k in (1, 3, 8):
            state = widget.change(agent=number, k=k)
            assert (state["name"], state["k"]) == (name, k)
            assert state["at"] == pytest.approx(scores.pass_at(k), abs=1e-4)
            assert state["every"] == pytest.approx(scores.pass_all(k), abs=1e-4)
            assert state["first"] == pytest.approx(scores.success().mean, abs=1e-4)


def test_by_keyboard(page):
    widget = Widget(page, "pass-power")
    widget.focus("#k")
    assert widget.press("ArrowRight")["k"] == 4
    assert widget.press("End")["k"] == 8
    widget.focus("[name=agent]")
    assert widget.press("ArrowDown")["name"] == "mixed"
    widget.focus("#back")
    assert widget.press("Enter")["k"] == 7
    assert page.url == widget.address
