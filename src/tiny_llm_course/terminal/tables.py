"""A table as lines of text: the words of a heading stand below each other, what is in a cell stays on one line."""

import textwrap
from collections.abc import Sequence

GAPS = ("   ", "  ", " ")  # the widest that fits


def in_columns(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The table; all but the first column to the right, and that too if it holds numbers.

    What does not fit into `width` is told row by row instead, a line for each cell.
    """
    columns = [[row[i] for row in rows] for i in range(len(headings))]
    widths = [max(map(len, [*headings[i].split(), *column])) for i, column in enumerate(columns)]
    gap = next((gap for gap in GAPS if sum(widths) + len(gap) * (len(widths) - 1) <= width), None)
    if gap is None:
        return _row_by_row(headings, rows)
    heads = [textwrap.wrap(heading, room) for heading, room in zip(headings, widths, strict=True)]
    high = max(map(len, heads))
    top = [[""] * (high - len(head)) + head for head in heads]
    names = not columns[0][0][:1].isdigit()

    def line(cells: Sequence[str]) -> str:
        placed = [cell.rjust(room) for cell, room in zip(cells, widths, strict=True)]
        placed[0] = cells[0].ljust(widths[0]) if names else placed[0]
        return gap.join(placed).rstrip()

    rule = gap.join("─" * room for room in widths)
    return [*(line(cells) for cells in zip(*top, strict=True)), rule, *map(line, rows)]


def _row_by_row(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = []
    for name, *cells in rows:
        lines += [f"{headings[0]} {name}", *(f"  {h}  {cell}" for h, cell in zip(headings[1:], cells, strict=True))]
    return lines
