"""The widget of week 5, day 7: its intervals are those of the course's own code, and it needs no mouse."""

import numpy as np
import pytest
from book.generate.week5 import day7
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
load_solution()


def test_the_intervals_are_the_solution_s(page):
    from tiny_llm_solution.evaluation.intervals import compare_paired

    widget = Widget(page, "bootstrap-mean")
    both = widget.data()["right"]
    for step in (1, 2, 7, 50, 200):
        state = widget.change(kind="paired", step=step)
        found = compare_paired(*both, resamples=step)
        np.testing.assert_allclose([state["low"], state["high"]], [found.low, found.high], atol=1e-12)
        assert np.sum(state["counts"][0]) == len(both[0])
        assert state["counts"][0] == state["counts"][1]
        state = widget.change(kind="unpaired", step=step)
        np.testing.assert_allclose([state["low"], state["high"]], day7.apart(*both, resamples=step), atol=1e-12)
        assert state["counts"][0] != state["counts"][1]


def test_the_chapter_s_answer_about_the_widths(page):
    widget = Widget(page, "bootstrap-mean")
    widths = []
    for kind in ("paired", "unpaired"):
        state = widget.change(kind=kind, step=200)
        widths.append(state["high"] - state["low"])
    assert 1.5 < widths[1] / widths[0] < 2
    assert "200 resamples, other items for each model" in widget.said()


@pytest.mark.parametrize("_", range(3))
def test_the_bootstrap_by_keyboard(page, _):
    widget = Widget(page, "bootstrap-mean")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight")["step"] == 3
    assert widget.press("Shift+Tab", "Enter")["step"] == 2
    widget.focus("#step")
    assert widget.press("End")["step"] == 200
    assert widget.press("Home")["step"] == 0
    assert "No item has been drawn yet" in widget.said()
    widget.focus("[value=paired]")
    assert widget.press("ArrowDown")["kind"] == "unpaired"
    widget.focus("#play")
    widget.press("Enter")
    page.wait_for_function("(({ step }) => step > 1)(document.querySelector('bootstrap-mean').state)")
    assert page.url == widget.address
