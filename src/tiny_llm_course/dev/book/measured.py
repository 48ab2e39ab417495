"""Recorded measurements as charts and tables. A benchmark's `CHART` is a kind, a vertical axis and columns."""

import ast
import datetime
import json
import re
from pathlib import Path
from typing import Any

from ...course.entities import Day
from ...course.file_paths import bench_path, record_path
from ...measuring.clock import number
from ...measuring.machine import in_words
from ...source.parsing import parse
from .drawing import Canvas, at_both_widths, bars, lines
from .parts import Parts, is_there


def measured_parts(day: Day) -> Parts:
    """Return the `measured` of a day with a recorded benchmark: a chart, a table and the machine."""
    file, record = bench_path(day), record_path(day)
    if not (is_there(file) and is_there(record)):
        return {}
    return {"measured": _page(json.loads(record.read_text(encoding="utf-8")), _chart_of(file))}


UNITS = {"%", "KiB", "MiB", "ms", "ratio"}
Chart = tuple[str, str, tuple[str, ...]]


def _chart_of(file: Path) -> Chart | None:
    """Read the benchmark's CHART without running it, as it imports the learner's package."""
    for node in parse(file.read_bytes()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CHART":
            chart: Chart = ast.literal_eval(node.value)
            return chart
    return None


def _drawn(found: dict[str, Any], chart: Chart) -> str:
    kind, axis, names = chart
    first, *_ = found["columns"]
    columns = {name: [row[found["columns"].index(name)] for row in found["rows"]] for name in names}
    across = [row[0] for row in found["rows"]]

    def draw(canvas: Canvas) -> None:
        if kind == "lines":
            lines(canvas, across, columns, (first, axis), number)
            return
        for name, values in columns.items():
            named = {f"{first} {x}" if isinstance(x, int) else x: y for x, y in zip(across, values, strict=True)}
            alike = max(max(others) for other, others in columns.items() if _unit(other) == _unit(name))
            bars(canvas, named, number, y=canvas.bottom + (14 if canvas.bottom else 0), heading=name, largest=alike)

    about = "; ".join(f"{name}: {', '.join(map(number, values))}" for name, values in columns.items())
    where = ", ".join(map(number, across))
    name = f"measured-{found['day'].replace('.', '-')}"
    return at_both_widths(draw).figure(name, found["title"], f"For {first} {where}. {about}.")


def _unit(column: str) -> str:
    """Return the unit in a column's name, or the name if it has none; columns of one unit share a scale."""
    return next((word for word in re.split("[ :]+", column) if word in UNITS), column)


def measured_on(found: dict[str, Any]) -> str:
    """Say when and on which machine a record was taken."""
    day = datetime.date.fromisoformat(found["date"])
    return f"Our solution on {day.day} {day:%B} {day.year}: {in_words(found['machine'])}."


def _page(found: dict[str, Any], chart: Chart | None) -> str:
    rows = [[number(cell) for cell in row] for row in found["rows"]]
    sides = [":--" if isinstance(cell, str) and not i else "--:" for i, cell in enumerate(found["rows"][0])]
    table = [found["columns"], sides, *rows]
    shown = [f"| {' | '.join(line)} |" for line in table]
    if chart:
        more = set(found["columns"][1:]) - set(chart[2])  # than the chart shows: the text discusses it
        opening = ["<details open>" if more else "<details>", "<summary>Full table</summary>", ""]
        shown = [_drawn(found, chart), *opening, *shown, "", "</details>"]
    return "\n".join([*shown, "", f"*{measured_on(found)}*", ""])
