"""The widget of day 7.5: it shows what was recorded, and needs no mouse."""

import pytest
from book.generate.week7.killed_runs import MOMENTS, played
from tests.book.widget import Widget

pytestmark = pytest.mark.of_the_course


def test_runs_as_recorded(page):
    widget = Widget(page, "resume-steps")
    for number, name in enumerate(MOMENTS):
        run = played(name)
        state = widget.change(moment=number, step=0)
        assert (state["name"], state["log"], state["kept"]) == (name, run["log"], run["kept"])
        state = widget.change(moment=number, step=99)
        assert state["done"]
        assert state["disk"].startswith("count = 1, undo steps: 1, posts: ")


def test_by_keyboard(page):
    widget = Widget(page, "resume-steps")
    widget.focus("#moment")
    assert widget.press("ArrowRight")["moment"] == 6
    widget.focus("#next")
    assert widget.press("Enter")["step"] == 1
    assert page.url == widget.address
