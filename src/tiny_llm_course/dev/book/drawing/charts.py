"""Numbers as charts: bars beside their names, and lines whose points have a shape for each series."""

import math
from collections.abc import Callable, Mapping, Sequence

from .canvas import FONT, SMALL, Canvas, looks_of, width_of

SHAPES = ("disc", "square", "ring", "box")  # of a series' points, in their order


def bars(
    canvas: Canvas,
    values: Mapping[str, float],
    words: Callable[[float], str],
    role: str | None = None,
    *,
    y: float = 0,
    heading: str = "",
    largest: float | None = None,
) -> None:
    """A bar for each name, as long as its number, which stands behind it. Bars of one figure may share a `largest`."""
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


def lines(
    canvas: Canvas,
    across: Sequence[float],
    series: Mapping[str, Sequence[float]],
    named: tuple[str, str],
    words: Callable[[float], str],
    *,
    logarithmic: bool = True,
    height: float = 190,
) -> None:
    """Lines over `across`, by the names of the series. `named` is what the two axes are.

    With logarithms, something that doubles goes up by the same step each time; each axis has marks at its numbers.
    """
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
    top = FONT + 10.0

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
            _mark(canvas, *place, i)
        level = legend + i * (FONT + 7)
        canvas.path([(left, level - 5), (left + 30, level - 5)], f"line {looks}")
        _mark(canvas, left + 15, level - 5, i)
        canvas.text(left + 38, level, name)


def _mark(canvas: Canvas, x: float, y: float, series: int) -> None:
    shape, looks = SHAPES[series % len(SHAPES)], f"series-{series}"
    if shape in ("disc", "ring"):
        canvas.circle(x, y, 4.5, f"{'fill' if shape == 'disc' else 'hollow'} {looks}")
    else:
        canvas.rect(x - 4, y - 4, 8, 8, f"{'fill' if shape == 'square' else 'hollow'} {looks}")


def _round_numbers(low: float, high: float, logarithmic: bool) -> list[float]:
    """Up to seven round numbers that reach from below the smallest to above the largest."""
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
