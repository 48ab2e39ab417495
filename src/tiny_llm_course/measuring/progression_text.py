"""The progression benchmark as text: bars on a logarithmic scale."""

import datetime
import math
import textwrap
from collections.abc import Sequence
from typing import Any

from .clock import number
from .machine import in_words

FILLS = {"stage": "█", "peer": "▒", "limit": "░"}
RIGHT = 17  # columns for tokens/s and the speed-up

Row = dict[str, Any]


def measured(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that ran here or were recorded."""
    return [row for row in rows if "tokens/s" in row]


def extent(rows: Sequence[Row]) -> tuple[int, int]:
    """Return the ends of the scale, as powers of ten: below the slowest bar and above the fastest."""
    paces = [row["tokens/s"] for row in measured(rows)]
    low = math.ceil(math.log10(min(paces))) - 1
    return low, max(math.ceil(math.log10(max(paces))), low + 1)


def times(row: Row, rows: Sequence[Row]) -> str:
    """Return the speed-up over the first measured row; "" for that row."""
    first = measured(rows)[0]
    return "" if row is first else f"{number(row['tokens/s'] / first['tokens/s'])} x"


def about(row: Row, tokens: int) -> str:
    """Return a row's description, noting a figure recorded elsewhere or on fewer tokens."""
    notes = []
    if recorded := row.get("recorded"):
        day = datetime.date.fromisoformat(recorded["date"])
        notes.append(f"recorded on {day.day} {day:%B} {day.year}, {recorded['machine']['processor']}")
    if row.get("tokens", tokens) < tokens:
        notes.append(f"its first {row['tokens']} tokens")
    return f"{row['about']} ({'; '.join(notes)})" if notes else str(row["about"])


def lines_of(found: dict[str, Any], width: int) -> list[str]:
    """Return what `bench --progression` prints, except the heading."""
    rows = found["rows"]
    low, high = extent(rows)
    left = max(len(row["name"]) for row in rows) + 2
    room = max(10, width - left - RIGHT)

    def column(pace: float) -> int:
        return round(room * (math.log10(pace) - low) / (high - low))

    lines = [f"{'':{left + room}}{'tokens/s':>8}"]
    for row in rows:
        if "tokens/s" in row:
            bar = FILLS[row["kind"]] * max(1, column(row["tokens/s"]))
            lines.append(f"{row['name']:{left}}{bar:{room}}{number(row['tokens/s']):>8}{times(row, rows):>9}".rstrip())
        else:
            lines.append(f"{row['name']:{left}}not run here: {row['not run']}")
    axis, marks = ["─"] * (room + 1), [" "] * (room + 9)
    for power in range(low, high + 1):
        at, words = column(10.0**power), number(10.0**power)
        axis[at] = "┴"
        marks[at : at + len(words)] = words
    lines += [f"{'':{left}}{''.join(axis)}", f"{'':{left}}{''.join(marks).rstrip()}", ""]
    for row in measured(rows):
        text = textwrap.wrap(about(row, found["tokens"]), max(20, width - left))
        lines += [f"{name:{left}}{line}" for name, line in zip([row["name"], *[""] * len(text)], text, strict=False)]
    once = [row["name"] for row in rows if row.get("turns") == 1]
    medians = f"Measured once: {', '.join(once)}." if once else "Medians of several turns."
    where = f"Memory: {number(found['bandwidth'] / 1e9)} GB/s, measured by {found['how']}."
    return [*lines, "", medians, where, in_words(found["machine"])]
