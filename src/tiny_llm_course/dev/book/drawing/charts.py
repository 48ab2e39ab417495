"""Charts: bars beside their names, lines whose points have a shape for each series, and a roofline."""

import math
from collections.abc import Callable, Mapping, Sequence

from .canvas import FONT, SMALL, Canvas, looks_of, width_of

SHAPES = ("disc", "square", "ring", "box")  # of a series' points, in their order
ROOFLINE_HEIGHT = 230.0
Point = tuple[float, float]  # FLOP/byte, FLOP/s


def bars(
    canvas: Canvas,
    values: Mapping[str, float],
    words: Callable[[float], str],
    role: str | None = None,
    *,
    y: float = 0,
    sides: tuple[float, float] | None = None,
    names: bool = True,
    heading: str = "",
    largest: float | None = None,
    rule: float | None = None,
) -> None:
    """Draw a bar per name with its number after it, and a line at `rule`. Bars of one figure may share a `largest`.

    A longer bar is cut into pieces. Charts may be beside each other, between their `sides`; one has the names.
    """
    left, right = sides or (max(map(width_of, values)) + 10, canvas.width)
    if heading:
        canvas.text(left if sides else 0, y + FONT, heading, "strong")
        y += FONT + 8
    top = largest or max(values.values())
    room = right - 14 - left - max(width_of(words(value)) for value in values.values())
    for i, (name, value) in enumerate(values.items()):
        level, length = y + i * (FONT + 8), max(room * min(value / top, 1), 1)
        if names:
            canvas.text(left - 10, level + FONT, name, "", "end")
        ends = (0, 0.8, 0.84, 0.88, 0.92, 1) if value > top else (0, 1)
        for start, end in zip(ends[::2], ends[1::2], strict=True):
            x, width = left + start * length, (end - start) * length
            canvas.rect(x, level + 1, width, FONT + 2, f"fill {looks_of(role) or 'series-0'}")
    if rule is not None:
        x, bottom = left + room * rule / top, y + len(values) * (FONT + 8)
        canvas.path([(x, y - 4), (x, bottom)], "line")
        canvas.text(x, bottom + SMALL + 2, words(rule), "small mono", "middle")
    for i, value in enumerate(values.values()):  # above the rule
        x = left + max(room * min(value / top, 1), 1) + 6
        canvas.text(x, y + i * (FONT + 8) + FONT, words(value), "halo")


def decade_bars(
    canvas: Canvas,
    values: Mapping[str, Sequence[tuple[float, str, str]]],
    extent: tuple[int, int],
    words: Callable[[float], str],
    unit: str,
) -> None:
    """Draw rows of bars on a scale of powers of ten.

    A bar has a number, words, and its class, or "line" for a limit.
    """
    low, high = extent
    most = max(map(len, values.values()))
    width, thick = canvas.width - 20, 12 if most == 1 else 8
    tall = FONT + 14 + (thick + 2) * most

    def place(value: float) -> float:
        return width * (math.log10(value) - low) / (high - low)

    bottom = tall * len(values)
    for power in range(low, high + 1):
        x = place(10.0**power)
        for i in range(len(values)):  # between the words, not through them
            canvas.path([(x, tall * i + FONT + 4), (x, tall * (i + 1) - 6)], "axis")
        anchor = "start" if power == low else "end" if power == high else "middle"
        canvas.text(x, bottom + SMALL + 5, words(10.0**power), "small mono", anchor)
    canvas.text(width, bottom + 2 * SMALL + 10, unit, "small", "end")
    for i, (name, row) in enumerate(values.items()):
        canvas.text(4, tall * i + FONT, name, "strong")
        canvas.text(width - 4, tall * i + FONT, "  |  ".join(said for _, said, _ in row), "", "end")
        for j, (value, _, looks) in enumerate(row):
            top, length = tall * i + FONT + 6 + (thick + 2) * j, max(place(value), 2)
            if looks == "line":
                canvas.path([(0, top + thick / 2), (length, top + thick / 2)], looks)
                canvas.path([(length, top), (length, top + thick)], looks)
            else:
                canvas.rect(0, top, length, thick, looks)


def lines(
    canvas: Canvas,
    across: Sequence[float],
    series: Mapping[str, Sequence[float]],
    named: tuple[str, str],
    words: Callable[[float], str],
    *,
    y: float = 0,
    logarithmic: bool = True,
    height: float = 190,
) -> None:
    """Draw a line per series over `across`, below `y`; `named` are the labels of both axes, logarithmic or not."""
    scale: Callable[[float], float] = math.log if logarithmic else float
    everything = [value for numbers in series.values() for value in numbers]
    low, high = min(everything), max(everything)
    if not logarithmic:
        low = min(0.0, low)
    marks = round_numbers(low, high, logarithmic)
    low, high = min(low, marks[0]), max(high, marks[-1])
    left = max(width_of(words(mark), SMALL) for mark in marks) + 8
    right = canvas.width - 20
    first, last = min(across), max(across)
    canvas.text(0, y + FONT, f"{named[1]} (log scales)" if logarithmic else named[1], "small")
    top = y + FONT + 16  # one series needs no name besides the axis's
    if len(series) > 1:
        top = legend(canvas, list(series), y + FONT + 8, line=True) + 8

    def point(x: float, y: float) -> tuple[float, float]:
        return (
            left + 12 + (right - left - 24) * (scale(x) - scale(first)) / (scale(last) - scale(first)),
            top + height * (scale(high) - scale(y)) / (scale(high) - scale(low)),
        )

    for mark in marks:
        level = point(first, mark)[1]
        canvas.path([(left, level), (right, level)], "grid")
        canvas.text(left - 5, level + SMALL / 3, words(mark), "small mono", "end")
    for x in across:
        canvas.text(point(x, low)[0], top + height + SMALL + 8, words(x), "small mono", "middle")
    canvas.text(right, top + height + 2 * SMALL + 12, named[0], "small", "end")
    for i, numbers in reversed(list(enumerate(series.values()))):  # the first one on top
        places = [point(x, y) for x, y in zip(across, numbers, strict=True)]
        canvas.path(places, f"line series-{i}")
        for place in places:
            mark_of(canvas, *place, i)


def roofline(
    canvas: Canvas,
    limits: tuple[float, float],
    series: Mapping[str, Sequence[tuple[str, Point]]],
    extent: Sequence[float],
    words: Callable[[float], str],
) -> None:
    """Draw `limits` in bytes/s and FLOP/s and labeled points; `extent` are the axes' ends as powers of ten."""
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
            upper + ROOFLINE_HEIGHT * (top - math.log10(speed)) / (top - bottom),
        )

    for mark in marks:
        y = place(1, mark)[1]
        canvas.path([(margin, y), (end, y)], "grid")
        canvas.text(margin - 5, y + SMALL / 3, words(mark / 1e9), "small mono", "end")
    for power in range(math.ceil(left), math.floor(right) + 1):
        canvas.text(
            place(10.0**power, rate)[0], upper + ROOFLINE_HEIGHT + SMALL + 6, words(10.0**power), "small mono", "middle"
        )
    canvas.text(end, upper + ROOFLINE_HEIGHT + 2 * SMALL + 10, "FLOPs per byte", "small", "end")
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


def legend(canvas: Canvas, names: Sequence[str], y: float, *, line: bool = False) -> float:
    """Draw each series' mark and name, in as many equal columns as fit; return where they end."""
    key = 30 if line else 12
    cell = key + 8 + max(map(width_of, names)) + 16
    columns = max(1, int((canvas.width + 12) // cell))
    for i, name in enumerate(names):
        x = i % columns * cell
        if i and not x:
            y += FONT + 7
        if line:
            canvas.path([(x, y + 9), (x + key, y + 9)], f"line series-{i}")
        mark_of(canvas, x + key / 2, y + 9, i)
        canvas.text(x + key + 8, y + FONT, name)
    return y + FONT + 7


def mark_of(canvas: Canvas, x: float, y: float, series: int) -> None:
    """Draw the shape of a series at a point."""
    shape, looks = SHAPES[series % len(SHAPES)], f"series-{series}"
    if shape in ("disc", "ring"):
        canvas.circle(x, y, 4.5, f"{'fill' if shape == 'disc' else 'hollow'} {looks}")
    else:
        canvas.rect(x - 4, y - 4, 8, 8, f"{'fill' if shape == 'square' else 'hollow'} {looks}")


def round_numbers(low: float, high: float, logarithmic: bool) -> list[float]:
    """Return up to seven round numbers that reach from below the smallest to above the largest."""
    if logarithmic:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        digits = (1,) if last - first > 2 else (1, 2, 5)
        every = [float(f"{digit}e{power}") for power in range(first, last + 1) for digit in digits]
        below, above = max(m for m in every if m <= low), min(m for m in every if m >= high)
        return [mark for mark in every if below <= mark <= above]
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough)
    return [step * i for i in range(math.floor(low / step), math.ceil(high / step) + 1)]
