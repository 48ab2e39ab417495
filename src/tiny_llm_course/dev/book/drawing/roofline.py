"""A roofline: the machine's limits as a roof, and measured points below it."""

import math
from collections.abc import Callable, Mapping, Sequence

from .canvas import FONT, SMALL, Canvas, width_of
from .charts import legend, mark_of

Point = tuple[float, float]  # FLOP/byte, FLOP/s
HEIGHT = 230.0


def roofline(
    canvas: Canvas,
    limits: tuple[float, float],
    series: Mapping[str, Sequence[tuple[str, Point]]],
    extent: Sequence[float],
    words: Callable[[float], str],
) -> None:
    """Draw `limits` in bytes/s and FLOP/s and labelled points; `extent` are the axes' ends as powers of ten."""
    bandwidth, rate = limits
    end = canvas.width - 20
    left, right, bottom, top = extent
    marks = [10.0**power for power in range(math.ceil(bottom), math.floor(top) + 1)]
    margin = max(width_of(words(mark / 1e9), SMALL) for mark in marks) + 8
    canvas.text(0, FONT, "GFLOP/s", "small")
    upper = legend(canvas, list(series), FONT + 8) + 8

    def place(intensity: float, speed: float) -> tuple[float, float]:
        return (
            margin + (end - margin) * (math.log10(intensity) - left) / (right - left),
            upper + HEIGHT * (top - math.log10(speed)) / (top - bottom),
        )

    for mark in marks:
        y = place(1, mark)[1]
        canvas.path([(margin, y), (end, y)], "axis")
        canvas.text(margin - 5, y + SMALL / 3, words(mark / 1e9), "small mono", "end")
    for power in range(math.ceil(left), math.floor(right) + 1):
        canvas.text(place(10.0**power, rate)[0], upper + HEIGHT + SMALL + 6, words(10.0**power), "small mono", "middle")
    canvas.text(end, upper + HEIGHT + 2 * SMALL + 10, "FLOPs per byte", "small", "end")
    start = max(10.0**left, 10.0**bottom / bandwidth)  # where the slope comes into the picture
    ridge = rate / bandwidth
    roof = [place(start, start * bandwidth), place(ridge, rate), place(10.0**right, rate)]
    canvas.path(roof, "line")
    canvas.text(end, roof[1][1] - 6, f"{words(rate / 1e9)} GFLOP/s", "small", "end")
    middle = math.sqrt(start * ridge)
    x, y = place(middle, middle * bandwidth)
    canvas.text(x - 6, y - 6, f"{words(bandwidth / 1e9)} GB/s", "small", "end")
    taken = [place(*point) for points in series.values() for _, point in points]
    for i, points in enumerate(series.values()):
        for above, point in points:
            x, y = place(*point)
            mark_of(canvas, x, y, i)
            if above:
                hidden = any(abs(x - u) < 14 and 0 < y - v < 24 for u, v in taken)
                canvas.text(x, y + SMALL + 6 if hidden else y - 9, above, "small", "middle")
