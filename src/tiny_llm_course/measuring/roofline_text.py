"""A roofline plot in a terminal, and the table of a measured engine."""

import math
import string
from collections.abc import Sequence
from typing import Any

from ..terminal.tables import in_columns
from .clock import number
from .machine import in_words

Point = tuple[float, float]  # FLOP/byte, FLOP/s
WIDTH, HEIGHT, MARGIN = 60, 13, 8  # characters inside the axes, and to the left of them
DECADES = 2.5  # minimum height of the plot


def lines_of(found: dict[str, Any], width: int) -> list[str]:
    """Return what `bench engine` prints, except the heading."""
    at_most, rows = found["limits"], found["rows"]
    marks = string.ascii_lowercase[: len(rows)]
    table = []
    for mark, row in zip(marks, rows, strict=True):
        measured = row["tokens"] / row["seconds"], 1e3 * row["seconds"], row["bytes"] / 1e6, row["flops"] / 1e6
        used = [f"{number(100 * row[key])} %" for key in ("bandwidth", "rate")]
        table.append([f"{mark} {row['step']}", *map(number, measured), *used, row["limit"]])
    headings = ("step", "tokens/s", "ms", "MB", "MFLOP", "of bandwidth", "of peak", "limited by")
    where = f"{number(at_most['bandwidth'] / 1e9)} GB/s, {number(at_most['rate'] / 1e9)} GFLOP/s"
    points = [(row["flops"] / row["bytes"], row["flops"] / row["seconds"]) for row in rows]
    missing = ", ".join(found["left out"])
    left_out = [f"Left out, because it would take too long:  {missing}."] * bool(missing)
    return [
        *in_columns(headings, table, width),
        "",
        *left_out,
        f"Machine: {where}; ridge at {number(found['ridge'])} FLOP/byte, memory-bound below it.",
        "",
        *drawn(at_most["bandwidth"], at_most["rate"], dict(zip(marks, points, strict=True))),
        "",
        f"Measured: {at_most['how']}.",
        in_words(found["machine"]),
    ]


def drawn(bandwidth: float, rate: float, points: dict[str, Point]) -> list[str]:
    """Return the roofline and its points, one letter each, on logarithmic axes."""
    left, right, bottom, top = extent(bandwidth, rate, list(points.values()))

    def column(intensity: float) -> int:
        return round((math.log10(intensity) - left) / (right - left) * (WIDTH - 1))

    def row(speed: float) -> int:
        return round((top - math.log10(speed)) / (top - bottom) * (HEIGHT - 1))

    cells = [[" "] * WIDTH for _ in range(HEIGHT)]
    for x in range(WIDTH):
        intensity = 10 ** (left + (right - left) * x / (WIDTH - 1))
        level = row(min(rate, bandwidth * intensity))
        if 0 <= level < HEIGHT:
            cells[level][x] = "─" if bandwidth * intensity >= rate else "/"
    for mark, (intensity, speed) in points.items():
        x, y = column(intensity), row(speed)
        while x < WIDTH - 1 and cells[y][x].isalpha():
            x += 1
        cells[y][x] = mark
    marks = {row(10.0**power): f"{10.0 ** (power - 9):g}" for power in range(math.ceil(bottom), math.floor(top) + 1)}
    below = [" "] * (WIDTH + 8)
    for power in range(math.ceil(left), math.floor(right) + 1):
        words = f"{10.0**power:g}"
        start = column(10.0**power)
        below[start : start + len(words)] = words
    body = [
        f"{marks.get(y, ''):>{MARGIN - 1}} {'┤' if y in marks else '│'}{''.join(line).rstrip()}"
        for y, line in enumerate(cells)
    ]
    axis = [f"{'':{MARGIN}}└{'─' * WIDTH}", f"{'':{MARGIN + 1}}{''.join(below).rstrip()}"]
    return ["GFLOP/s", *body, *axis, "FLOP/byte".rjust(MARGIN + 1 + WIDTH)]


def extent(bandwidth: float, rate: float, points: Sequence[Point]) -> tuple[float, float, float, float]:
    """Return the axes' ends, left, right, bottom and top, as powers of ten, around all points and the ridge."""
    across = [rate / bandwidth, *(intensity for intensity, _ in points)]
    up = [rate, *(speed for _, speed in points)]
    top = math.log10(max(up)) + 0.2
    bottom = min(math.log10(min(up)) - 0.2, top - DECADES)
    return math.log10(min(across)) - 0.4, math.log10(max(across)) + 0.4, bottom, top
