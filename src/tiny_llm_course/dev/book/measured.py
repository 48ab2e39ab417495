"""Recorded measurements as charts and tables: of a day's benchmark, and of whole engines, for pages and SVG files.

The `CHART` of a day's benchmark is a kind, a vertical axis and columns.
"""

import ast
import datetime
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...course.entities import Day
from ...course.file_paths import bench_path, record_path
from ...measuring import progression_text, roofline_text
from ...measuring.clock import number
from ...measuring.machine import in_words
from ...source.parsing import parse
from .drawing import Canvas, at_both_widths, bars, decade_bars, lines, roofline
from .drawing.canvas import WIDEST, width_of
from .parts import Parts, is_there

Found = dict[str, Any]  # a benchmark's record


def measured_parts(day: Day) -> Parts:
    """Return the `measured` of a day with a recorded benchmark: a chart, a table and the machine."""
    file, record = bench_path(day), record_path(day)
    if not (is_there(file) and is_there(record)):
        return {}
    found, chart = json.loads(record.read_text(encoding="utf-8")), _chart_of(file)
    found["columns"] = [_heading(column) for column in found["columns"]]
    return {"measured": _page(found, chart and (*chart[:2], tuple(map(_heading, chart[2]))))}


UNITS = {"%", "KiB", "MiB", "ms", "μs", "ratio", "width"}
CUT = 8  # A bar that is so many times as long as all others is cut.
Chart = tuple[str, str, tuple[str, ...]]


def _heading(column: str) -> str:
    """Return the heading of a recorded column: "kernel, μs" for "kernel: us"."""
    return re.sub(r"\bus$", "μs", column.replace(": ", ", "))


def _chart_of(file: Path) -> Chart | None:
    """Read the benchmark's CHART without running it, as it imports the learner's package."""
    for node in parse(file.read_bytes()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CHART":
            chart: Chart = ast.literal_eval(node.value)
            return chart
    return None


def _drawn(found: Found, chart: Chart) -> str:
    kind, axis, names = chart
    first, *_ = found["columns"]
    columns = {name: [row[found["columns"].index(name)] for row in found["rows"]] for name in names}
    across, cut = [row[0] for row in found["rows"]], list[bool]()

    def draw(canvas: Canvas) -> None:
        if kind == "lines":
            charts = {axis: columns}
            parts, units = {_unit(part): part for part in axis.split(", ")}, [*dict.fromkeys(map(_unit, columns))]
            if len(units) > 1 and parts.keys() >= set(units):  # a chart for each unit, named by its part of the axis
                charts = {parts[u]: {n: of for n, of in columns.items() if _unit(n) == u} for u in units}
            for name, series in charts.items():
                if len({x.rpartition(", ")[2] for x in series}) == 1:  # the axis says what all of them are
                    series = {x.rpartition(", ")[0]: of for x, of in series.items()}
                y, height = canvas.bottom + (14 if canvas.bottom else 0), 190 if len(charts) == 1 else 120
                lines(canvas, across, series, (first, name), number, y=y, height=height)
            return
        names = [f"{first} {x}" if isinstance(x, int) else x for x in across]
        left = max(map(width_of, names)) + 10
        beside = canvas.width > WIDEST and len(columns) > 1
        wide = (canvas.width - left) / len(columns)
        if beside:  # the last heading may be wider than its bars
            wide = min(wide, (canvas.width - 4 - left - width_of([*columns][-1])) / (len(columns) - 1))
        for i, (name, values) in enumerate(columns.items()):
            alike = sorted(x for other, of in columns.items() if _unit(other) == _unit(name) for x in of)
            largest = alike[-2] / 0.7 if alike[-1] > CUT * alike[-2] > 0 else alike[-1]
            cut.append(largest < alike[-1])
            rule = 1 if name.endswith(("speed-up", "slowdown")) else None
            place: Found = {"y": canvas.bottom + (14 if canvas.bottom else 0)}
            if beside:
                place = {"sides": (left + i * wide, left + (i + 1) * wide), "names": not i}
            named = dict(zip(names, values, strict=True))
            bars(canvas, named, number, heading=name, largest=largest, rule=rule, **place)

    about = "; ".join(f"{name}: {', '.join(map(number, values))}" for name, values in columns.items())
    where = ", ".join(map(number, across))
    name = f"measured-{found['day'].replace('.', '-')}"
    drawing = at_both_widths(draw)
    caption = "A bar in pieces is longer than drawn." if any(cut) else ""
    return drawing.figure(name, found["title"], f"For {first} {where}. {about}.", caption)


def _unit(column: str) -> str:
    """Return the unit in a column's name, or the name if it has none; columns of one unit share a scale."""
    return next((word for word in re.split("[ ,]+", column) if word in UNITS), column)


def measured_on(found: Found) -> str:
    """Say when and on which machine a record was taken."""
    day = datetime.date.fromisoformat(found["date"])
    return f"Our solution on {day.day} {day:%B} {day.year}: {in_words(found['machine'])}."


def _page(found: Found, chart: Chart | None) -> str:
    rows = [[number(cell) for cell in row] for row in found["rows"]]
    sides = [":--" if isinstance(cell, str) and not i else "--:" for i, cell in enumerate(found["rows"][0])]
    table = [found["columns"], sides, *rows]
    shown = [f"| {' | '.join(line)} |" for line in table]
    if chart:
        more = "; ".join(column for column in found["columns"][1:] if column not in chart[2])
        summary = f"<summary>Full table{f' (also: {more})' if more else ''}</summary>"
        shown = [_drawn(found, chart), "<details>", summary, "", *shown, "", "</details>"]
    return "\n".join([*shown, "", f"*{measured_on(found)}*", ""])


# Whole engines

LOOKS = {"stage": "fill series-0", "peer": "hollow", "limit": "line"}
BESIDE = {**LOOKS, "stage": "fill series-1"}  # of a second model
GAP = 30.0


@dataclass(frozen=True)
class BenchChart:
    """A chart of a record; `about` describes it in a sentence."""

    name: str
    title: str
    draw: Callable[[Canvas, Found], None]
    about: Callable[[Found], str]

    def figure(self, found: Found, name: str, caption: str) -> str:
        """Return the chart for a page."""
        return at_both_widths(lambda canvas: self.draw(canvas, found)).figure(
            name, self.title, self.about(found), caption
        )

    def in_a_file(self, found: Found) -> str:
        """Return the chart as an SVG file."""
        canvas = Canvas()
        self.draw(canvas, found)
        return canvas.in_a_file(self.name, self.title, self.about(found))


def _roofline(canvas: Canvas, found: Found) -> None:
    points = {row["step"]: (row["flops"] / row["bytes"], row["flops"] / row["seconds"]) for row in found["rows"]}
    limits = found["limits"]["bandwidth"], found["limits"]["rate"]
    prefills = [(step.rpartition(" ")[2], point) for step, point in points.items() if step.startswith("prefill")]
    decodes = [(step.rpartition(" ")[2], point) for step, point in points.items() if step.startswith("decode")]
    series = {"prefill, by number of tokens": prefills}
    if decodes:  # they are too close together for words
        after = f"decode step after {' or '.join(count for count, _ in decodes)} tokens"
        series[after] = [("", point) for _, point in decodes]
    ends = roofline_text.extent(*limits, list(points.values()))
    roofline(canvas, limits, {name: of for name, of in series.items() if of}, ends, number)


def _about_roofline(found: Found) -> str:
    steps = "; ".join(
        f"{row['step']}: {number(row['flops'] / row['bytes'])} FLOPs per byte, "
        f"{number(row['flops'] / row['seconds'] / 1e9)} GFLOP/s"
        for row in found["rows"]
    )
    at_most = found["limits"]
    roof = f"{number(at_most['bandwidth'] / 1e9)} GB/s and {number(at_most['rate'] / 1e9)} GFLOP/s"
    return f"A roof, {roof}, with its ridge at {number(found['ridge'])} FLOPs per byte. Below it: {steps}."


def _rates(found: Found) -> list[tuple[str, str, float, str]]:
    """Return each measured row's name, kind, throughput, and that in words."""
    rows = progression_text.measured(found["rows"])
    rates = [(row, row["tokens/s"], progression_text.times(row, rows)) for row in rows]
    return [(row["name"], row["kind"], rate, number(rate) + (f" ({x})" if x else "")) for row, rate, x in rates]


def _progression(canvas: Canvas, found: Found) -> None:
    """Draw a record, and the one of another model that it may have under "beside"."""
    values = dict[str, list[tuple[float, str, str]]]()
    models = [found, *([found["beside"]] if "beside" in found else [])]
    for model, looks in zip(models, (LOOKS, BESIDE), strict=False):
        for name, kind, rate, words in _rates(model):
            values.setdefault(name, []).append((rate, words, looks[kind]))
    ends = progression_text.extent([row for model in models for row in model["rows"]])
    decade_bars(canvas, values, ends, number, "tokens per second")


def _about_progression(found: Found) -> str:
    said = "Tokens per second: " + "; ".join(f"{name}: {words}" for name, _, _, words in _rates(found)) + "."
    return f"{said} {found['beside']['title']}. {_about_progression(found['beside'])}" if "beside" in found else said


def _measures(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    waits = [row for row in rows if row["ttft"] and row["tpot"]]
    return {
        "throughput, tokens/s, all at once": {row["name"]: row["tokens/s"] for row in rows},
        "TTFT, ms, p95": {row["name"]: 1000 * row["ttft"]["p95"] for row in waits},
        "TPOT, ms, p95": {row["name"]: 1000 * row["tpot"]["p95"] for row in waits},
    }


def _serving(canvas: Canvas, found: Found) -> None:
    y = 0.0
    for heading, values in _measures(found["rows"]).items():
        bars(canvas, values, number, y=y, heading=heading)
        y += GAP + 22 * (len(values) + 1)


def _about_serving(found: Found) -> str:
    measures = _measures(found["rows"]).items()
    return "; ".join(f"{m}: " + ", ".join(f"{name} {number(x)}" for name, x in of.items()) for m, of in measures) + "."


TITLE = "Roofline: the machine's limits, and the engine's steps"
ROOFLINE = BenchChart("roofline", TITLE, _roofline, _about_roofline)
PROGRESSION = BenchChart("progression", "Throughput on the same text", _progression, _about_progression)
SERVING = BenchChart("servings", "Serving modes on the same requests", _serving, _about_serving)
