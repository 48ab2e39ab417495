"""The widget of day 5.5: its numbers are those of a singular value decomposition, and it needs no mouse."""

import json

import numpy as np
import pytest
from tests.book.widget import Widget

from tiny_llm_course.paths import MODELS

pytestmark = pytest.mark.of_the_course


def test_what_a_rank_keeps(page):
    widget = Widget(page, "lora-rank")
    updates = json.loads((MODELS / "good-night" / "record.json").read_text())["updates"]
    for number, found in enumerate(updates.values()):
        (outputs, inputs), values = found["shape"], np.array(found["singular"])
        for rank, alpha in ((1, 1), (4, 8), (len(values), 64)):
            state = widget.change(matrix=number, rank=rank, alpha=alpha)
            share = float(np.sum(values[:rank] ** 2) / found["squares"])
            assert state["share"] == pytest.approx(share)
            assert state["error"] == pytest.approx((1 - share) ** 0.5, abs=1e-6)
            assert (state["full"], state["low"]) == (outputs * inputs, rank * (outputs + inputs))
            assert state["factor"] == alpha / rank


@pytest.mark.parametrize("_", range(3))
def test_the_rank_by_keyboard(page, _):
    widget = Widget(page, "lora-rank")
    assert (widget.state()["rank"], widget.state()["factor"]) == (4, 2)
    widget.focus("#rank")
    assert widget.press("ArrowRight")["rank"] == 5
    assert widget.press("End")["rank"] == 64
    widget.focus("#alpha")
    assert widget.press("Home")["factor"] == 1 / 64
    widget.focus("[name=matrix]")
    assert widget.press("ArrowDown")["matrix"] == 1
    assert page.url == widget.address
