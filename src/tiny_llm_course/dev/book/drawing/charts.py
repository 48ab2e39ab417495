"""Charts: bars beside their names, and lines whose points have a shape for each series."""

import math
from collections.abc import Callable, Mapping, Sequence

from .canvas import FONT, SMALL, Canvas, looks_of, width_of

Words = Callable[[float], str]  # from a number to what is written beside its mark
Series = Mapping[str, Sequence[float]]
Names = tuple[str, str]  # of both axes
SHAPES = ("disc", "square", "ring", "box")  # of a series' points, in their order


def bars(
    canvas: Canvas,
    values: Mapping[str, float],
    words: Words,
    role: str | None = None,
    *,
    y: float = 0,
    heading: str = "",
    largest: float | None = None,
) -> None:
    """Draw a bar per name with its number after it. Bars of one figure may share a `largest`."""
    if heading:
        canvas.text(0, y + FONT, heading, "strong")
        y += FONT + 8
    top = largest or max(values.values())
    left = max(map(width_of, values)) + 10
    room = 358 - left - max(width_of(words(value)) for value in values.values())
    for i, (name, value) in enumerate(values.items()):
        level = y + i * (FONT + 8)
        canvas.text(left - 10, level + FONT, name, "", "end")
        length = max(room * value / top, 1)
        canvas.rect(left, level + 1, length, FONT + 2, f"fill {looks_of(role)}".strip())
        canvas.text(left + length + 6, level + FONT, words(value))


Rows = Mapping[str, Sequence[tuple[float, str, str]]]


def decade_bars(canvas: Canvas, values: Rows, extent: tuple[int, int], words: Words, unit: str) -> None:
    """Draw rows of bars on a scale of powers of ten; a bar is a number, words, and its class, or "line" for a limit."""
    low, high = extent
    most = max(map(len, values.values()))
    width, thick = 352.0, 12 if most == 1 else 8
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
    canvas: Canvas, across: Sequence[float], series: Series, named: Names, words: Words, *, logarithmic: bool = True
) -> None:
    """Draw a line per series over `across`; `named` are the labels of both axes."""
    scale: Callable[[float], float] = math.log if logarithmic else float
    everything = [value for numbers in series.values() for value in numbers]
    low, high = min(everything), max(everything)
    if not logarithmic:
        low = min(0.0, low)
    marks = _round_numbers(low, high, logarithmic)
    low, high = min(low, marks[0]), max(high, marks[-1])
    left = max(width_of(words(mark), SMALL) for mark in marks) + 8
    right = 352.0
    first, last = min(across), max(across)
    top, height = FONT + 10.0, 190.0

    def point(x: float, y: float) -> tuple[float, float]:
        return (
            left + 12 + (right - left - 24) * (scale(x) - scale(first)) / (scale(last) - scale(first)),
            top + height * (scale(high) - scale(y)) / (scale(high) - scale(low)),
        )

    canvas.text(0, FONT, named[1], "small")
    for mark in marks:
        y = point(first, mark)[1]
        canvas.path([(left, y), (right, y)], "axis")
        canvas.text(left - 5, y + SMALL / 3, words(mark), "small mono", "end")
    for x in across:
        canvas.text(point(x, low)[0], top + height + SMALL + 8, words(x), "small mono", "middle")
    canvas.text(right, top + height + 2 * SMALL + 12, named[0], "small", "end")
    legend = top + height + 2 * SMALL + 34
    for i, (name, numbers) in enumerate(series.items()):
        looks = f"series-{i}"
        places = [point(x, y) for x, y in zip(across, numbers, strict=True)]
        canvas.path(places, f"line {looks}")
        for place in places:
            mark_of(canvas, *place, i)
        level = legend + i * (FONT + 7)
        canvas.path([(left, level - 5), (left + 30, level - 5)], f"line {looks}")
        mark_of(canvas, left + 15, level - 5, i)
        canvas.text(left + 38, level, name)


def curves(
    canvas: Canvas, across: Sequence[float], series: Series, words: Words, *, dots: Mapping[str, float] | None = None
) -> None:
    """Draw functions over `across`, on the same scale for both axes; `dots` mark points of the first curve."""
    left, right = min(across), max(across)
    everything = [0.0, *(value for numbers in series.values() for value in numbers)]
    low, high = min(everything), max(everything)
    unit = 330 / (right - left)

    def point(x: float, y: float) -> tuple[float, float]:
        return unit * (x - left), unit * (high - y)

    canvas.path([point(left, 0), point(right, 0)], "axis")
    canvas.path([point(0, low), point(0, high)], "axis")
    for mark in _round_numbers(left, right, logarithmic=False):
        if mark and left <= mark <= right:
            x, y = point(mark, 0)
            canvas.path([(x, y - 3), (x, y + 3)], "axis")
            canvas.text(x, y + SMALL + 8, words(mark), "small mono", "middle")
    for mark in _round_numbers(low, high, logarithmic=False):
        if mark and low <= mark <= high:
            x, y = point(0, mark)
            canvas.path([(x - 3, y), (x + 3, y)], "axis")
            canvas.text(x - 8, y + SMALL / 3, words(mark), "small mono", "end")
    for i, numbers in enumerate(series.values()):
        canvas.path([point(x, y) for x, y in zip(across, numbers, strict=True)], f"line series-{i}")
    first = next(iter(series.values()))
    for name, x in (dots or {}).items():
        at = min(range(len(across)), key=lambda i: abs(across[i] - x))
        before, after = max(0, at - 1), min(len(across) - 1, at + 1)
        steep = (first[after] - first[before]) / (across[after] - across[before])
        place = point(across[at], first[at])
        canvas.circle(*place, 4.5, "fill series-0")
        if abs(steep) > 0.25:
            canvas.text(place[0] + 9, place[1] + FONT, name, "strong")
        else:
            canvas.text(place[0], place[1] - 10, name, "strong", "middle")


def mark_of(canvas: Canvas, x: float, y: float, series: int) -> None:
    """Draw the shape of a series at a point."""
    shape, looks = SHAPES[series % len(SHAPES)], f"series-{series}"
    if shape in ("disc", "ring"):
        canvas.circle(x, y, 4.5, f"{'fill' if shape == 'disc' else 'hollow'} {looks}")
    else:
        canvas.rect(x - 4, y - 4, 8, 8, f"{'fill' if shape == 'square' else 'hollow'} {looks}")


def _round_numbers(low: float, high: float, logarithmic: bool) -> list[float]:
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


Point = tuple[float, float]  # FLOP/byte, FLOP/s
RIGHT, HEIGHT = 352.0, 230.0


def roofline(
    canvas: Canvas,
    limits: tuple[float, float],
    series: Mapping[str, Sequence[tuple[str, Point]]],
    extent: Sequence[float],
    words: Words,
) -> None:
    """Draw `limits` in bytes/s and FLOP/s and labelled points; `extent` are the axes' ends as powers of ten."""
    bandwidth, rate = limits
    left, right, bottom, top = extent
    marks = [10.0**power for power in range(math.ceil(bottom), math.floor(top) + 1)]
    margin = max(width_of(words(mark / 1e9), SMALL) for mark in marks) + 8
    upper = FONT + 10.0

    def place(intensity: float, speed: float) -> tuple[float, float]:
        return (
            margin + (RIGHT - margin) * (math.log10(intensity) - left) / (right - left),
            upper + HEIGHT * (top - math.log10(speed)) / (top - bottom),
        )

    canvas.text(0, FONT, "GFLOP/s", "small")
    for mark in marks:
        y = place(1, mark)[1]
        canvas.path([(margin, y), (RIGHT, y)], "axis")
        canvas.text(margin - 5, y + SMALL / 3, words(mark / 1e9), "small mono", "end")
    for power in range(math.ceil(left), math.floor(right) + 1):
        canvas.text(place(10.0**power, rate)[0], upper + HEIGHT + SMALL + 6, words(10.0**power), "small mono", "middle")
    canvas.text(RIGHT, upper + HEIGHT + 2 * SMALL + 10, "FLOPs per byte", "small", "end")
    start = max(10.0**left, 10.0**bottom / bandwidth)  # where the slope comes into the picture
    ridge = rate / bandwidth
    roof = [place(start, start * bandwidth), place(ridge, rate), place(10.0**right, rate)]
    canvas.path(roof, "line")
    canvas.text(RIGHT, roof[1][1] + SMALL + 4, f"{words(rate / 1e9)} GFLOP/s", "small", "end")
    middle = math.sqrt(start * ridge)
    x, y = place(middle, middle * bandwidth)
    canvas.text(x - 6, y - 6, f"{words(bandwidth / 1e9)} GB/s", "small", "end")
    legend = upper + HEIGHT + 2 * SMALL + 32
    for i, (name, points) in enumerate(series.items()):
        for above, point in points:
            x, y = place(*point)
            mark_of(canvas, x, y, i)
            if above:
                canvas.text(x, y - 9, above, "small", "middle")
        level = legend + i * (FONT + 7)
        mark_of(canvas, 6, level - 5, i)
        canvas.text(18, level, name)
