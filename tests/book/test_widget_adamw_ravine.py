"""The ravine of week 5, day 3: both paths are those of the course's own code, and no mouse is needed."""

import numpy as np
import pytest
from book.generate.week5 import day3
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
load_solution()


@pytest.mark.parametrize("changed", [{}, {"decay": 2, "rate": 2}, {"beta1": 0, "beta2": 1, "scale": 2}], ids=str)
def test_the_ravine_s_path_is_the_solution_s(page, changed):
    view = {**day3.CHOSEN, **changed}
    state = Widget(page, "adamw-ravine").change(**view, step=day3.STEPS)
    np.testing.assert_allclose(np.array(state["adam"], float), day3.path_of(view), atol=1e-4)
    np.testing.assert_allclose(np.array(state["descent"], float), day3.descent_of(view), rtol=1e-9)


def test_the_ravine_by_keyboard(page):
    widget = Widget(page, "adamw-ravine")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight")["step"] == 12
    assert widget.press("Shift+Tab", "Enter")["step"] == 11
    widget.focus("#rate")
    assert widget.press("End")["rate"] == 6
    assert page.url == widget.address
