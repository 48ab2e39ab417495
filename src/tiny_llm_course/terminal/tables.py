"""Tables as lines of text: with headings, or as maps with a cell for each number, the fuller the larger."""

import textwrap
from collections.abc import Sequence

from .wrapping import cells

GAPS = ("   ", "  ", " ")  # the widest that fits
SHADES, PLAIN = " ░▒▓█", " .:+#"  # the latter for a terminal that has no blocks
FROM = (0.05, 0.25, 0.5, 0.75)  # where the next shade begins
DIGITS = 5  # columns of a number with the gap before it
GAP = "  "
LONGEST = 12  # columns of a name

Table = Sequence[Sequence[float]]  # rows x columns


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

    def line(row: Sequence[str]) -> str:
        placed = [cell.rjust(room) for cell, room in zip(row, widths, strict=True)]
        placed[0] = row[0].ljust(widths[0]) if names else placed[0]
        return gap.join(placed).rstrip()

    rule = gap.join("─" * room for room in widths)
    return [*(line(row) for row in zip(*top, strict=True)), rule, *map(line, rows)]


def _row_by_row(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = []
    for name, *rest in rows:
        lines += [f"{headings[0]} {name}", *(f"  {h}  {cell}" for h, cell in zip(headings[1:], rest, strict=True))]
    return lines


def legend(shades: str = SHADES) -> str:
    """What a shade means, in words."""
    return ", ".join(f"{shade} from {least:g}" for shade, least in zip(shades[1:], FROM, strict=True))


def width_of(names: Sequence[str], title: str, numbers: bool) -> tuple[int, int]:
    """How many columns the names at the side take, and how many a map with this title."""
    side = len(str(len(names))) + 1 + max(cells(_short(name)) for name in names)
    return side, max((DIGITS if numbers else 2) * len(names), cells(title))


def maps(
    tables: Sequence[tuple[str, Table]], names: Sequence[str], width: int, numbers: bool = False, shades: str = SHADES
) -> list[str]:
    """Tables with their titles as lines of text, as many beside each other as fit, the rows' names at the left.

    A row and the column of the same number have the same name. What stands behind a row's own place is a dot.
    An empty list if not even one table fits.
    """
    side, room = width_of(names, max((title for title, _ in tables), key=cells), numbers)
    fit = (width - side) // (room + len(GAP))
    if fit < 1:
        return []
    lines: list[str] = []
    for first in range(0, len(tables), fit):
        some = tables[first : first + fit]
        if lines:
            lines.append("")
        lines.append(_line("", side, [title for title, _ in some], room))
        # A narrow column has room for the last digit of its number: two would run into the next.
        head = "".join(f"{i:{DIGITS}}" if numbers else f"{i % 10:2}" for i in range(1, len(names) + 1))
        lines.append(_line("", side, [head] * len(some), room))
        digits = len(str(len(names)))
        for i, name in enumerate(names):
            rows = ["".join(_cell(table[i], j, i, numbers, shades) for j in range(len(names))) for _, table in some]
            lines.append(_line(f"{i + 1:>{digits}} {_short(name)}", side, rows, room))
    return lines


def _cell(row: Sequence[float], column: int, own: int, numbers: bool, shades: str) -> str:
    if column > own:
        return f"{'·' if shades == SHADES else '-':>{DIGITS if numbers else 2}}"
    if numbers:
        return f"{row[column]:{DIGITS}.2f}"
    return 2 * shades[sum(row[column] >= least for least in FROM)]


def _line(name: str, side: int, parts: Sequence[str], room: int) -> str:
    padded = (part + " " * (room - cells(part)) for part in parts)
    return f"{name}{' ' * (side - cells(name))}{GAP}{GAP.join(padded)}".rstrip()


def _short(name: str) -> str:
    if cells(name) <= LONGEST:
        return name
    while cells(name) > LONGEST - 1:
        name = name[:-1]
    return f"{name}…"
