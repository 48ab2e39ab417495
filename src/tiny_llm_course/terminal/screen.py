"""What every command prints with. Standard library only, because `doctor` must run without the course's packages."""

import os
import sys
from typing import TextIO

from .wrapping import excerpt, wrapped

NO_READER = 141  # 128 + SIGPIPE, the exit code that shells have for a closed pipe
USUAL = 80  # columns of a terminal of unknown width
STYLES = {"red": 31, "green": 32, "yellow": 33, "cyan": 36}
BOLD, DIM = 1, 2
DIFFERENCE = {"+": "green", "-": "red", "@": "cyan"}  # colors of a diff's lines, by first character


def say(
    text: str = "",
    *,
    color: str | None = None,
    bold: bool = False,
    dim: bool = False,
    err: bool = False,
    mark_only: bool = False,
    cut: bool = False,
    as_is: bool = False,
) -> None:
    """Print text and flush. On a terminal, lines are wrapped to its current width.

    Elsewhere (pipe, file, CI) lines are not wrapped and not colored; nor are they colored under NO_COLOR. `mark_only`
    colors only the first character. `cut` is for code, tables and a learner's output: truncate instead of wrapping.
    `as_is` leaves long lines to the terminal: for what a user approves, where no character may be lost.
    """
    stream = sys.stderr if err else sys.stdout
    if stream is None:
        return
    width = columns(stream)
    lines = text.split("\n")
    if width and not as_is:
        lines = [part for line in lines for part in (excerpt if cut else wrapped)(line, width)]
    codes = ([STYLES[color]] if color else []) + [BOLD] * bold + [DIM] * dim
    if codes and in_color(stream):
        begin, end = f"\x1b[{';'.join(map(str, codes))}m", "\x1b[0m"
        if mark_only:
            lines[0] = f"{begin}{lines[0][:1]}{end}{lines[0][1:]}"
        else:
            lines = [f"{begin}{line}{end}" if line else line for line in lines]
    print("\n".join(lines), file=stream, flush=True)


def nowhere_to_write(error: OSError) -> int:
    """Redirect both streams to the null device; return the exit code after a closed pipe or a full disk."""
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if isinstance(error, BrokenPipeError):
        return NO_READER
    say(f"The output cannot be written: {error.strerror}.", err=True)
    return 2


def columns(stream: TextIO) -> int | None:
    """Return the terminal's current width, None if the stream is no terminal. COLUMNS takes precedence."""
    if not stream.isatty():
        return None
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL
    except (OSError, ValueError):
        return USUAL


def in_color(stream: TextIO) -> bool:
    """Return whether output to this stream may be colored."""
    return stream.isatty() and not os.environ.get("NO_COLOR")
