"""The widget of day 7.3: it shows what the loop recorded, and needs no mouse."""

import runpy

import pytest
from tests.book.widget import Widget

from tiny_llm_course.paths import BOOK

pytestmark = pytest.mark.of_the_course


def test_runs_as_recorded(page):
    widget = Widget(page, "agent-run")
    script = runpy.run_path(str(BOOK / "generate/week7/day3.py"))
    for number, name in enumerate(script["RUNS"]):
        entries = script["played"](name)
        for step in (0, 1, len(entries) - 1):
            state = widget.change(run=number, step=step)
            assert len(state["shown"]) == step + 1
            assert state["used"] == entries[step]["used"]
            expected = entries[step].get("message", {"role": "stop"})["role"]
            assert state["shown"][-1]["role"] == expected
        assert state["shown"][-1]["lines"] == [entries[-1]["stop"]]


def test_by_keyboard(page):
    widget = Widget(page, "agent-run")
    widget.focus("#step")
    assert widget.press("ArrowRight")["step"] == 5
    assert widget.press("End")["shown"][-1]["role"] == "stop"
    widget.focus("[name=run]")
    assert widget.press("ArrowDown")["run"] == 1
    widget.focus("#next")
    assert widget.press("Enter")["step"] == 1
    assert page.url == widget.address
