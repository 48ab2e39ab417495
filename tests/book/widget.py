"""A widget of the book on its page, for the browser tests."""

import json
from typing import Any

WIDGETS = {
    "attention-stepper": "week1/day1.html",
    "head-atlas": "week1/day1.html",
    "box-steps": "week1/day6.html",
    "depth-words": "week1/day5.html",
    "norm-gate": "week1/day4.html",
    "rope-rotation": "week1/day2.html",
    "gqa-sharing": "week1/day3.html",
    "story-teller": "index.html",
    "sampling-sliders": "week1/day7.html",
}


class Widget:
    """A custom element on its page."""

    def __init__(self, page: Any, name: str) -> None:
        self.page, self.name = page, name
        page.goto(WIDGETS[name])
        self.element = page.locator(name).first
        self.element.locator(".live").wait_for()
        self.address = page.url

    def look(self, views: list[dict[str, Any] | None], selector: str) -> tuple[list[dict[str, Any]], list[str]]:
        """The state, and the text of a part, in each of the views; None is the view as it is.

        JSON has no infinities: they come as strings.
        """
        script = """(element, [views, selector], show = (view) => view && element.change(view)) => JSON.stringify([
            views.map((view) => { show(view); return element.state; }),
            views.map((view) => { show(view); return element.$(selector).textContent; }),
        ], (_, x) => Math.abs(x) === Infinity ? String(x) : x)"""
        states, texts = json.loads(self.element.evaluate(script, [views, selector]))
        return states, texts

    def state(self) -> dict[str, Any]:
        return self.look([None], ".say")[0][0]

    def change(self, **view: Any) -> dict[str, Any]:
        return self.look([view], ".say")[0][0]

    def press(self, *keys: str) -> dict[str, Any]:
        for key in keys:
            self.page.keyboard.press(key)
        return self.state()

    def focus(self, selector: str) -> None:
        self.element.locator(selector).focus()

    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = self.element.evaluate("e => e.data")
        return data

    def said(self) -> str:
        text: str = self.element.locator(".say").inner_text()
        return text
