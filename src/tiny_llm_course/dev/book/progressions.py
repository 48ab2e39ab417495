"""A week's progression, as `bench --progression` has found it: in the book, and in a file of its own."""

from typing import Any

from ...measuring.clock import number
from ...measuring.progression_text import extent, measured, times
from .drawing import Canvas, decade_bars

TITLE = "How fast the same text is written"
LOOKS = {"stage": "fill series-0", "peer": "hollow", "limit": "line"}


def canvas_of(found: dict[str, Any]) -> Canvas:
    """A bar for each engine that was measured, and a line for each limit."""
    canvas = Canvas()
    values = {name: (pace, words, LOOKS[kind]) for name, kind, pace, words in _read(found)}
    decade_bars(canvas, values, extent(found["rows"]), number, "tokens a second")
    return canvas


def about(found: dict[str, Any]) -> str:
    """What there is to see, in a sentence."""
    return "Tokens a second: " + "; ".join(f"{name}: {words}" for name, _, _, words in _read(found)) + "."


def in_a_file(found: dict[str, Any]) -> str:
    """The SVG by itself."""
    return canvas_of(found).in_a_file("progression", TITLE, about(found))


def _read(found: dict[str, Any]) -> list[tuple[str, str, float, str]]:
    """Of each row that was measured its name, its kind, its number, and that in words."""
    rows = measured(found["rows"])
    paces = [(row, row["tokens/s"], times(row, rows)) for row in rows]
    return [(row["name"], row["kind"], pace, number(pace) + (f" ({x})" if x else "")) for row, pace, x in paces]
