"""Ways to serve, as `bench serve` has found them: in the book, and in a file of its own."""

from typing import Any

from ...measuring.clock import number
from .drawing import Canvas, bars

TITLE = "Ways to serve the same requests"
GAP = 30.0


def canvas_of(found: dict[str, Any]) -> Canvas:
    """Bars for what can be written in a second, and for what somebody waits for who is among the last twentieth."""
    canvas, rows, y = Canvas(), found["rows"], 0.0
    for heading, values, words in _parts(rows):
        bars(canvas, values, words, y=y, heading=heading)
        y += GAP + 22 * (len(values) + 1)
    return canvas


def _parts(rows: list[dict[str, Any]]) -> list[tuple[str, dict[str, float], Any]]:
    waits = [row for row in rows if row["ttft"] and row["tpot"]]
    return [
        ("tokens a second, all at once", {row["name"]: row["tokens/s"] for row in rows}, number),
        ("ms to the first token, p95", {row["name"]: 1000 * row["ttft"]["p95"] for row in waits}, number),
        ("ms between two tokens, p95", {row["name"]: 1000 * row["tpot"]["p95"] for row in waits}, number),
    ]


def about(found: dict[str, Any]) -> str:
    """What there is to see, in a sentence."""
    told = []
    for heading, values, words in _parts(found["rows"]):
        told.append(f"{heading}: " + ", ".join(f"{name} {words(value)}" for name, value in values.items()))
    return "; ".join(told) + "."


def in_a_file(found: dict[str, Any]) -> str:
    """The SVG by itself."""
    return canvas_of(found).in_a_file("servings", TITLE, about(found))
