"""Arrays as grids: a square's size is the magnitude, filled above zero, hollow below; color shows only the role."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..html import number
from .canvas import FONT, MARGIN, SMALL, WIDEST, Canvas, looks_of, width_of

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


def squares(
    canvas: Canvas,
    x: float,
    y: float,
    values: Array,
    cell: float,
    role: str | None,
    largest: float | None = None,
    hidden: Mask | None = None,
) -> None:
    """Draw `values`, rows x columns, in cells of `cell` pixels; the largest fills its cell, `hidden` ones are dots."""
    top = float(np.max(np.abs(values))) if largest is None else largest
    looks = looks_of(role)
    for (i, j), value in np.ndenumerate(values):
        middle = x + (j + 0.5) * cell, y + (i + 0.5) * cell
        if hidden is not None and hidden[i, j]:
            canvas.circle(*middle, max(0.8, cell / 16), "dot")
            continue
        if value and top:
            side = max(1.5, (cell - 1.5) * math.sqrt(min(1.0, abs(value) / top)))
            shape = "fill" if value > 0 else "hollow"
            canvas.rect(middle[0] - side / 2, middle[1] - side / 2, side, side, f"{shape} {looks}")


def matrix(
    canvas: Canvas,
    values: Array,
    rows: Sequence[str],
    columns: Sequence[str],
    role: str | None,
    *,
    digits: int = 2,
    hidden: Mask | None = None,
    lit: int | None = None,
) -> None:
    """Draw one large matrix with row and column names, each number below its square, and the row `lit` framed."""
    left = max(map(width_of, rows)) + 10
    cell = min(56.0, (368 - left) / len(columns))
    upper = cell * 0.72  # of a cell is for the square, the rest for its number
    for j, column in enumerate(columns):
        canvas.text(left + (j + 0.5) * cell, FONT, column, "", "middle")
    top = float(np.max(np.abs(values if hidden is None else np.where(hidden, 0, values))))
    for i, row in enumerate(rows):
        level = FONT + 6 + i * (upper + SMALL + 6)
        canvas.text(left - 10, level + upper / 2 + FONT / 2, row, "strong" if i == lit else "", "end")
        for j in range(len(columns)):
            one = values[i : i + 1, j : j + 1]
            gone = hidden is not None and bool(hidden[i, j])
            shaded = np.ones((1, 1), dtype=np.bool_) if gone else None
            squares(canvas, left + j * cell + (cell - upper) / 2, level, one, upper, role, top, shaded)
            if not gone:
                words = number(values[i, j], digits)
                canvas.text(left + (j + 0.5) * cell, level + upper + SMALL, words, "small mono", "middle")
        if i == lit:
            canvas.rect(left, level - 2, cell * len(columns), upper + SMALL + 6, f"frame {looks_of(role)}", 3)


def strips(
    canvas: Canvas, values: Array, names: Sequence[str], role: str, *, total: bool = False, level: float = 0
) -> None:
    """Draw vectors below each other, a bar per number, as wide as fits; with `total`, a line above the last.

    `level` is the y of the upper edge.
    """
    left = max(map(width_of, names)) + 10
    right = canvas.width - 2 * MARGIN
    step, half = (right - left) / values.shape[1], 17.0 if canvas.width == WIDEST else 26.0
    top = float(np.max(np.abs(values)))
    for i, (name, vector) in enumerate(zip(names, values, strict=True)):
        middle = level + (2 * half + 6) * i + half
        if total and i == len(names) - 1:
            canvas.path([(0, middle - half), (right, middle - half)], "line")
            middle += 6
        canvas.text(left - 10, middle + FONT / 3, name, "", "end")
        canvas.path([(left, middle), (left + step * len(vector), middle)], "axis")
        for j, value in enumerate(vector):
            height = half * abs(float(value)) / top
            shape = ("fill" if value > 0 else "hollow") + f" {looks_of(role)}"
            if height >= 0.5:
                start = middle - height if value > 0 else middle
                canvas.rect(left + j * step + 0.4, start, max(step - 0.8, 1), height, shape)
