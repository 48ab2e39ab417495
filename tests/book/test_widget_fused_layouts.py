"""The widget of day 4.2: it splits and converts as the solution does, and it needs no mouse."""

import itertools

import mlx.core as mx
import numpy as np
import pytest
from book.generate.week4 import day2
from tests.book.test_widgets import fits
from tests.book.widget import Widget

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
mx.set_default_device(mx.cpu)
load_solution()
LAYOUTS = "blocks", "interleaved"


def test_the_split_and_the_permutation_are_the_solution_s(page):
    from tiny_llm_solution.fused_qkv.layouts import qkv_permutation, split_qkv

    widget, (vectors, heads, kv_heads) = Widget(page, "fused-layouts"), day2.fused()
    np.testing.assert_allclose(widget.data()["vectors"], vectors[:, : day2.FEATURES], atol=1e-4)
    numbers = mx.arange(heads + 2 * kv_heads)[None]  # one feature a head: its place in the fused vector
    named = {
        layout: {
            f"{kind}{head}": place
            for kind, part in zip("qkv", split_qkv(numbers, heads, kv_heads, layout), strict=True)
            for head, place in enumerate(part.flatten().tolist())
        }
        for layout in LAYOUTS
    }
    for (i, stored), (j, split) in itertools.product(enumerate(LAYOUTS), enumerate(LAYOUTS)):
        state = widget.change(stored=i, split=j)
        for names, layout in ((state["actual"], stored), (state["taken"], split)):
            assert names == sorted(named[layout], key=named[layout].get)
        assert state["rows"] == qkv_permutation(heads, kv_heads, 1, stored, split).tolist()
        assert state["right"] == sum(named[stored][name] == place for name, place in named[split].items())
        assert ("the shape is the same" in widget.said()) == (stored != split)


@pytest.mark.parametrize("_", range(3))
def test_the_layouts_by_keyboard(page, _):
    widget = Widget(page, "fused-layouts")
    assert "q3 is k0, q4 is v0 and q5 is q3" in widget.said()
    widget.focus("[name=split]")
    assert widget.press("ArrowDown")["right"] == 10
    widget.focus("[name=stored]")
    assert widget.press("ArrowUp")["stored"] == 0
    fits(page, widget)
    assert page.url == widget.address
