"""A widget of the book on its page, for the browser tests."""

import json
import re
from typing import Any

from tiny_llm_course.dev.book.parts import present
from tiny_llm_course.paths import BOOK

SOURCE = BOOK / "src"
INCLUDED = re.compile(r"generated/([\w.]+)\.md:([\w-]+)\}\}")


def _pages() -> dict[str, str]:
    """Every widget that stands on `common.js`, and the page that shows most of it."""
    scripts = {file.stem: file.read_text(encoding="utf-8") for file in sorted((SOURCE / "widgets").glob("*.js"))}
    found: dict[str, tuple[int, str]] = {}
    for name in re.findall(r"\]\(([\w/.-]+)\.md\)", (SOURCE / "SUMMARY.md").read_text(encoding="utf-8")):
        parts = INCLUDED.findall((SOURCE / f"{name}.md").read_text(encoding="utf-8"))
        for text in (present(file, part) for file, part in parts):
            for widget, script in scripts.items():
                if "extends BookWidget" in script and f"<{widget}>" in text:
                    found[widget] = max(found.get(widget, (0, "")), (text.find("</script>"), f"{name}.html"))
    return {widget: page for widget, (_, page) in found.items()}


WIDGETS = _pages()


class Widget:
    """A custom element on its page."""

    def __init__(self, page: Any, name: str, address: str = "") -> None:
        self.page, self.name = page, name
        page.goto(address or WIDGETS[name])
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
