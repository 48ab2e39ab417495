"""The widget of day 6.1: what it shows is what simulated ranks sent, and it needs no mouse."""

import pytest
from book.generate.week6.day1 import ORDERS, PARTS, steps, stuck
from tests.book.widget import Widget

pytestmark = pytest.mark.of_the_course


def test_every_step(page):
    widget = Widget(page, "ring-steps")
    assert widget.change(step=0)["have"] == PARTS.tolist()
    taken = steps()
    for number, (moves, have) in enumerate(taken, start=1):
        state = widget.change(order=0, step=number)
        assert state["have"] == have.tolist()
        assert [tuple(move) for move in state["moves"]] == [tuple(move) for move in moves]
        assert (state["step"], state["stuck"], state["done"]) == (number, None, number == len(taken))
    assert state["have"] == [PARTS.sum(axis=0).tolist()] * len(PARTS)


def test_orders_that_hang(page):
    widget = Widget(page, "ring-steps")
    for order, name in list(enumerate(ORDERS))[1:]:
        state = widget.change(order=order, step=99)
        assert (state["step"], state["done"], state["have"]) == (1, True, PARTS.tolist())
        assert state["stuck"] == stuck(name)
        assert widget.said() == "Every rank waits for another one."


def test_steps_by_keyboard(page):
    widget = Widget(page, "ring-steps")
    widget.focus("#next")
    assert widget.press("Enter", "ArrowRight")["step"] == 3
    assert widget.press("ArrowLeft")["step"] == 2
    widget.focus("[name=order]")
    assert widget.press("ArrowDown")["order"] == 1
    assert page.url == widget.address
