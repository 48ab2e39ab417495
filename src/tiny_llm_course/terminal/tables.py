"""Tables as lines of text: with headings, or as heat maps with a shaded cell per number."""

import textwrap
from collections.abc import Sequence

from .wrapping import cells

GAPS = ("   ", "  ", " ")  # the widest that fits
SHADES, PLAIN = " ░▒▓█", " .:+#"  # PLAIN is for encodings without blocks
FROM = (0.05, 0.25, 0.5, 0.75)  # lower bound of each shade
DIGITS = 5  # columns of a number and the gap before it
GAP = "  "
LONGEST = 12  # columns of a name

Table = Sequence[Sequence[float]]  # rows x columns


def in_columns(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the table's lines, numbers right-aligned; a table wider than `width` becomes one line per cell."""
    columns = [[row[i] for row in rows] for i in range(len(headings))]
    widths = [max(map(len, [*headings[i].split(), *column])) for i, column in enumerate(columns)]
    gap = next((gap for gap in GAPS if sum(widths) + len(gap) * (len(widths) - 1) <= width), None)
    if gap is None:
        pairs = [pair for row in rows for pair in zip(headings, row, strict=True)]
        return [f"{h} {cell}" if h == headings[0] else f"  {h}  {cell}" for h, cell in pairs]
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


def legend(shades: str = SHADES) -> str:
    """Return the meaning of each shade."""
    return ", ".join(f"{shade} from {least:g}" for shade, least in zip(shades[1:], FROM, strict=True))


def width_of(names: Sequence[str], title: str, numbers: bool) -> tuple[int, int]:
    """Return the widths of the row names and of a map with this title, in columns."""
    side = len(str(len(names))) + 1 + max(cells(_short(name)) for name in names)
    return side, max((DIGITS if numbers else 2) * len(names), cells(title))


def maps(
    tables: Sequence[tuple[str, Table]], names: Sequence[str], width: int, numbers: bool = False, shades: str = SHADES
) -> list[str]:
    """Return titled maps as lines, side by side as far as they fit, masked cells as dots; [] if not even one fits."""
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
        # A narrow column shows the last digit of its number: two digits would touch the next.
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
