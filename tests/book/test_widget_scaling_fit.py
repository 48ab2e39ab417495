"""The widget of week 5, day 4: its numbers are the solution's, and it needs no mouse."""

import itertools

import pytest
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
load_solution()


def test_the_law_is_the_solution_s(page):
    """For every choice of runs, at the slider's ends and between them."""
    from tiny_llm_solution.training.scaling import fit_scaling_law

    widget = Widget(page, "scaling-fit")
    data = widget.data()
    sizes, losses = data["sizes"], data["losses"]
    for count in range(3, len(sizes) + 1):
        for chosen in itertools.combinations(range(len(sizes)), count):
            fit = fit_scaling_law([sizes[i] for i in chosen], [losses[i] for i in chosen])
            for at in (0, 11, len(data["grid"]) - 1):
                view = {f"run{i}": i in chosen for i in range(len(sizes))}
                state = widget.change(at=at, **view)
                size, low_high = data["grid"][at], fit.interval(data["grid"][at], data["level"])
                assert state["chosen"] == list(chosen)
                assert state["size"] == size
                found = [state["fit"][name] for name in ("loss", "low", "high")]
                assert found == pytest.approx([fit.law(size), *low_high], abs=2e-3)


def test_fewer_than_three_runs_have_no_law(page):
    widget = Widget(page, "scaling-fit")
    count = len(widget.data()["sizes"])
    state = widget.change(**{f"run{i}": i < 2 for i in range(count)})
    assert state["fit"] is None
    assert "at least three runs" in widget.said()


@pytest.mark.parametrize("_", range(3))
def test_the_scaling_fit_by_keyboard(page, _):
    widget = Widget(page, "scaling-fit")
    last = len(widget.data()["grid"]) - 1
    widget.focus("[name=run0]")
    assert widget.press("Space")["chosen"][0] == 1
    assert widget.press("Space")["chosen"][0] == 0
    widget.focus("#at")
    assert widget.press("Home")["size"] == widget.data()["grid"][0]
    assert widget.press("End")["size"] == widget.data()["grid"][last]
    assert page.url == widget.address
