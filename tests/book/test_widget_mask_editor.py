"""The widget of day 4.1: its weights are those of the solution's attention, and it needs no mouse."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from book.generate.week1.heads import example
from tests.book.test_widgets import fits
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
mx.set_default_device(mx.cpu)
load_solution()
CHANGED = (15, 7)  # a key of a padding position that `blue` sees, and one in the future of `is`


def test_the_weights_are_those_of_the_solution(page):
    from tiny_llm_solution.masks.attention import masked_attention

    widget, scores = Widget(page, "mask-editor"), mx.array(example().scores).astype(mx.float32)
    size = len(scores)
    eye, position = mx.eye(size), np.arange(size)
    for causal, side, padding, changed in itertools.product((True, False), (0, 1), (0, 2, 5), ([], CHANGED)):
        padded = position >= size - padding if side else position < padding
        visible = ~padded & (np.tri(size) if causal else np.ones((size, size))).astype(np.bool_)
        visible.flat[list(changed)] ^= True
        view = {"causal": causal, "side": side, "padding": padding, "changed": changed}
        state = widget.change(full=0, **view)
        wanted = masked_attention(scores, eye, eye, mx.array(visible), scale=1.0)
        np.testing.assert_allclose(state["weights"], np.array(wanted), atol=1e-5)
        assert state["seen"] == visible.sum(axis=1).tolist()
        for full, low in ((1, -mx.inf), (2, -1e9)):
            wanted = np.array(mx.softmax(scores + mx.where(mx.array(visible), 0.0, low), axis=-1))
            found = np.array(widget.change(full=full, **view)["weights"], dtype=np.float64)  # JSON has null for NaN
            np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_the_chapter_s_answer_about_padding(page):
    widget = Widget(page, "mask-editor")
    assert widget.state()["seen"] == [0, 0, 1, 2, 3]
    assert widget.change(side=1)["seen"] == [1, 2, 3, 3, 3]
    assert widget.change(causal=False)["seen"] == widget.change(side=0)["seen"] == [3] * 5


def test_the_mask_by_mouse(page):
    widget = Widget(page, "mask-editor")
    mask = widget.element.locator("#mask")
    mask.scroll_into_view_if_needed()
    box = mask.bounding_box()
    scale = box["width"] / mask.evaluate("svg => svg.viewBox.baseVal.width")
    mask.click(position={"x": (38 + 2.5 * 38) * scale, "y": (18 + 1.5 * 38) * scale})
    state = widget.state()
    assert (state["row"], state["column"], state["changed"]) == (1, 2, [7])
    mask.click(position={"x": 5, "y": 5})  # a label
    assert widget.state() == state


@pytest.mark.parametrize("_", range(3))
def test_the_mask_by_keyboard(page, _):
    widget = Widget(page, "mask-editor")
    widget.focus("#cells")
    state = widget.press("ArrowUp", "ArrowUp", "ArrowLeft", "Space")
    assert (state["row"], state["column"], state["changed"]) == (1, 2, [7])
    assert "visible, weight 1.00" in widget.said()
    assert widget.press("Enter")["changed"] == []
    assert "hidden, weight 0.00. The row is fully masked and sums to 0.00" in widget.said()
    widget.focus("[name=full]")
    widget.press("ArrowDown")
    assert "sums to NaN" in widget.said()
    widget.focus("[name=causal]")
    assert widget.press("Space")["seen"] == [3] * 5
    widget.focus("#padding")
    assert widget.press("End")["seen"] == [0] * 5
    fits(page, widget)
    assert page.url == widget.address
