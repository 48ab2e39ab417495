"""What `watch` shows: how the watched tasks stand, the one to work on in full, and the keys, on one screen."""

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable, Sequence

import click

from .registry import Task
from .report import MARKS, say, verdict
from .results import TaskResult

KEYS = "h hint · n next task · l list · q quit · Enter runs all again"
KEYS_IN_SHORT = "h hint n next l list q quit Enter all"


class _Page(io.StringIO):
    """Keeps what is printed, in colour if the terminal behind it would have it."""

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()


def on_screen() -> bool:
    """Whether there is a screen to clear."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def show(head: Callable[[], None], body: Callable[[], None], rest: str, keys: bool) -> None:
    """Print a page: what `head` and `body` print, and the keys. On a terminal it takes the screen's place.

    A body that does not fit there is cut; `rest` names the command that shows all of it.
    """
    top, middle = [*_printed(head), ""], _printed(body)
    size = shutil.get_terminal_size()
    footer = KEYS if size.columns > len(KEYS) else KEYS_IN_SHORT
    bottom = ["", footer] if keys else [""]
    if on_screen():
        room = size.lines - sum(_rows(line, size.columns) for line in top + bottom)
        middle = _fit(middle, room, size.columns, rest)
        top[0] = f"\x1b[2J\x1b[H{top[0]}"
    sys.stdout.write("\n".join(top + middle + bottom))
    if not (on_screen() and keys):
        sys.stdout.write("\n")
    sys.stdout.flush()


def overview(tasks: Sequence[Task], results: dict[str, TaskResult]) -> None:
    """Print how the tasks stand, by status."""
    groups: dict[str, list[str]] = {}
    for task in tasks:
        groups.setdefault(results[task.id].status if task.id in results else "not run", []).append(task.id)
    say(" · ".join(f"{MARKS[status][0]} {', '.join(ids)} {status}" for status, ids in groups.items()))


def board(tasks: Sequence[Task], results: dict[str, TaskResult]) -> None:
    """Print each task's title and verdict."""
    for task in tasks:
        if task.id in results:
            mark, colour = MARKS[results[task.id].status]
            say(f"{mark} {task.label}: {verdict(results[task.id])}", colour=colour)
        else:
            say(f"○ {task.label}: not graded yet")


def _printed(write: Callable[[], None]) -> list[str]:
    page = _Page()
    with contextlib.redirect_stdout(page):
        write()
    return page.getvalue().splitlines()


def _fit(lines: list[str], room: int, columns: int, rest: str) -> list[str]:
    if sum(_rows(line, columns) for line in lines) <= room:
        return lines
    note, kept = f"    ... all of it: {rest}", []
    room -= _rows(note, columns)
    for line in lines:
        room -= _rows(line, columns)
        if room < 0:
            break
        kept.append(line)
    return [*kept, note]


def _rows(line: str, columns: int) -> int:
    return max(1, -(-len(click.unstyle(line)) // columns))
