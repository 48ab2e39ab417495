"""The widget of day 4.6: its owners and counts are those of the solution, and it needs no mouse."""

import dataclasses
import itertools

import pytest
from tests.book.test_widgets import fits
from tests.book.widget import Widget
from tests.week1.reference_model import embedded_model

from tiny_llm_course.programs.packages import load_solution

pytestmark = pytest.mark.of_the_course
load_solution()


def test_the_owners_and_counts_are_the_solution_s(page):
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.weight_sharing.counting import count_shared
    from tiny_llm_solution.weight_sharing.owners import ORDERS, weight_owner

    widget, config = Widget(page, "shared-layers"), ModelConfig.from_dict(embedded_model().config)
    data = widget.data()
    assert data["orders"] == list(ORDERS)
    for (number, order), layers, sets in itertools.product(enumerate(ORDERS), data["layers"], data["sets"]):
        state = widget.change(order=number, layers=layers, sets=sets, step=layers)
        assert state["owners"] == [weight_owner(layer, layers, sets, order) for layer in range(layers)]
        deep = dataclasses.replace(config, num_hidden_layers=layers)
        shared, whole = (count_shared(deep, count) for count in (sets, layers))
        assert (state["stored"], state["cached"]) == (shared.stored, shared.cached)
        assert state["share"] == pytest.approx(shared.stored / whole.stored)


@pytest.mark.parametrize("_", range(3))
def test_the_layers_by_keyboard(page, _):
    widget = Widget(page, "shared-layers")
    assert "56 %" in widget.element.locator(".figures").inner_text()  # as the chapter says
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight", "ArrowLeft")["at"] == 4
    assert "Layer 3 uses set 1, whose use 2 of 2 this is" in widget.said()
    widget.focus("[name=order]")
    assert widget.press("ArrowDown")["owners"] == [0, 1, 2, 0, 1, 2]
    assert widget.press("ArrowDown")["owners"] == [0, 1, 2, 2, 1, 0]
    widget.focus("[name=sets]")
    assert widget.press("Home")["owners"] == [0] * 6
    fits(page, widget)
    assert page.url == widget.address
