"""The widget of day 2.5: its lines are those that the simulator counts, and it needs no mouse."""

import itertools

import mlx.core as mx
import pytest
from tests.book.test_widgets import fits
from tests.book.widget import Widget

from metal_simulator import metal_kernel

pytestmark = pytest.mark.of_the_course
SOURCE = """
    uint t = thread_position_in_grid.x;
    T sum = 0;
    for (uint i = 0; i < N; ++i) sum += x[FIRST + (OWN ? N * t + i : 32 * i + t)];
    out[t] = sum;
"""


def test_the_lines_are_those_of_the_simulator(page):
    widget = Widget(page, "line-loads")
    kernel = metal_kernel(name="loads", input_names=["x"], output_names=["out"], source=SOURCE)
    x, size = mx.ones(32 * 8 + 16), {"grid": (32, 1, 1), "threadgroup": (32, 1, 1)}
    for kind, each, first in ((0, 4, 0), (1, 4, 0), (0, 4, 1), (1, 4, 1), (1, 3, 7), (0, 8, 15), (1, 8, 15), (1, 1, 0)):
        template = [("T", mx.float32), ("N", each), ("FIRST", first), ("OWN", bool(kind))]
        kernel(inputs=[x], template=template, output_shapes=[(32,)], output_dtypes=[mx.float32], **size)
        state = widget.change(kind=kind, each=each, first=first, step=each)
        assert state["total"] == sum(state["fetched"]) == kernel.counters.device_transactions - 2  # of the output
        assert (state["moved"], state["used"]) == (64 * state["total"], 4 * 32 * each)


def test_the_chapter_s_answer_about_lines(page):
    widget = Widget(page, "line-loads")
    totals = [widget.change(kind=kind, first=first, step=4)["total"] for kind, first in ((0, 0), (1, 0), (0, 1))]
    assert totals == [8, 32, 12]
    assert [len(widget.change(step=step)["now"]) for step in range(5)] == [0, 3, 3, 3, 3]


@pytest.mark.parametrize("_", range(3))
def test_loads_by_keyboard(page, _):
    widget = Widget(page, "line-loads")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight", "ArrowLeft")["at"] == 2
    assert "thread 1 gets element 33" in widget.said()
    widget.focus("[name=kind]")
    assert widget.press("ArrowDown")["total"] == 16
    widget.focus("#each")
    assert widget.press("Home")["at"] == 1
    widget.focus("#first")
    assert widget.press("End")["first"] == 15
    widget.focus("#play")
    widget.press(*itertools.repeat("Enter", 2))
    fits(page, widget)
    assert page.url == widget.address
