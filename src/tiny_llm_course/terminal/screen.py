"""What every command prints with: lines as wide as the terminal, and colour, where there is a terminal at all.

`doctor` must answer where the course's packages are missing, so this stands on the standard library alone.
"""

import os
import sys
from typing import TextIO

from .wrapping import excerpt, wrapped

USUAL = 80  # columns of a terminal that does not say how many it has
STYLES = {"red": 31, "green": 32, "yellow": 33, "cyan": 36}
BOLD, DIM = 1, 2
DIFFERENCE = {"+": "green", "-": "red", "@": "cyan"}  # the colours of a difference's lines, by their first character


def say(
    text: str = "",
    *,
    colour: str | None = None,
    bold: bool = False,
    dim: bool = False,
    err: bool = False,
    mark_only: bool = False,
    cut: bool = False,
) -> None:
    """Print some text, at once. On a terminal its lines are broken between words, as wide as it is now.

    Where nobody looks (a pipe, a file, CI) lines stay whole, and there is no colour; nor is there against NO_COLOR.

    Args:
        text: a line, or some.
        colour, bold, dim: how it looks; `mark_only` colours no more than the mark that it begins with.
        err: to stderr.
        cut: it is code, or printed by it, or a table: what does not fit the terminal is cut, not broken.
    """
    stream = sys.stderr if err else sys.stdout
    if stream is None:
        return
    width = columns(stream)
    lines = text.split("\n")
    if width:
        lines = [part for line in lines for part in (excerpt if cut else wrapped)(line, width)]
    codes = ([STYLES[colour]] if colour else []) + [BOLD] * bold + [DIM] * dim
    if codes and in_colour(stream):
        begin, end = f"\x1b[{';'.join(map(str, codes))}m", "\x1b[0m"
        if mark_only:
            lines[0] = f"{begin}{lines[0][:1]}{end}{lines[0][1:]}"
        else:
            lines = [f"{begin}{line}{end}" if line else line for line in lines]
    print("\n".join(lines), file=stream, flush=True)


def columns(stream: TextIO) -> int | None:
    """How wide the terminal behind a stream is at this moment; None if there is none.

    COLUMNS comes before what the terminal says of itself.
    """
    if not stream.isatty():
        return None
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL
    except (OSError, ValueError):
        return USUAL


def in_colour(stream: TextIO) -> bool:
    """Whether what is printed there may have colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR")
