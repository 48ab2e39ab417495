"""What `watch` shows on one screen: the watched tasks' states, the current task in full, and the keys."""

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable, Sequence

from ...course.entities import Task
from ...course.registry import load_course
from ...course.results import TaskResult, verdict
from ...doctor.git import restoring
from ...grading.report import MARKS, report_task
from ...paths import LEARNER, ROOT
from ...terminal.screen import USUAL, columns, say

KEYS = "h hint · n next task · p back · l list · q quit · Enter grades all again"
KEYS_IN_SHORT = "h hint n next p back l list q quit"
NOT_GRADED = "not graded yet"
PACKAGE = LEARNER.relative_to(ROOT).as_posix()


class _Page(io.StringIO):
    """Captures what is printed, as if it were printed to the terminal."""

    def isatty(self) -> bool:
        return sys.__stdout__ is not None and sys.__stdout__.isatty()

    def fileno(self) -> int:
        return sys.__stdout__.fileno() if sys.__stdout__ else super().fileno()


def on_screen() -> bool:
    """Return whether there is a screen to clear."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def show(head: Callable[[], None], body: Callable[[], None], rest: str, keys: bool) -> None:
    """Print a page, replacing the screen on a terminal; a body that does not fit is cut, and `rest` shows all of it."""
    top, middle, bottom = [*_printed(head), ""], _printed(body), [""]
    if keys:
        bottom.append(KEYS if len(KEYS) < (columns(sys.stdout) or USUAL) else KEYS_IN_SHORT)
    if on_screen():
        size = shutil.get_terminal_size()
        if len(middle) > (room := max(1, size.lines - len(top) - len(bottom))):
            middle = [*middle[: room - 1], f"    ... all of it: {rest}"]
        top[0] = f"\x1b[2J\x1b[H{top[0]}"
    sys.stdout.write("\n".join(top + middle + bottom))
    if not (on_screen() and keys):
        sys.stdout.write("\n")
    sys.stdout.flush()


def overview(tasks: Sequence[Task], results: dict[str, TaskResult]) -> None:
    """Print the tasks by status."""
    groups: dict[str, list[str]] = {}
    for task in tasks:
        groups.setdefault(results[task.id].status if task.id in results else NOT_GRADED, []).append(task.id)
    marks = {status: mark for status, (mark, _) in MARKS.items()} | {NOT_GRADED: "○"}
    say(" · ".join(f"{marks[status]} {', '.join(ids)} {status}" for status, ids in groups.items()))


def board(tasks: Sequence[Task], results: dict[str, TaskResult]) -> None:
    """Print each task's title and verdict."""
    for task in tasks:
        if task.id in results:
            mark, color = MARKS[results[task.id].status]
            say(f"{mark} {task.label}: {verdict(results[task.id])}", color=color)
        else:
            say(f"○ {task.label}: {NOT_GRADED}")


def all_done(results: Sequence[TaskResult], following: Sequence[Task], keys: bool) -> None:
    """Print that no work is left here, and which tasks are next."""
    if borrowed := [result.task.id for result in results if result.status == "borrowed"]:
        say(f"⇢ {', '.join(borrowed)}: borrowed, not graded (pdm run return {borrowed[0]})", color="yellow")
    absent = [result for result in results if result.status == "not run here"]
    for result in absent:
        report_task(result, PACKAGE)
    if len(borrowed) + len(absent) < len(results):
        say("The rest has passed." if borrowed or absent else "Everything has passed.", color="green")
    if following:
        say(f"Next: {'n, or later: ' if keys else ''}pdm run watch {load_course().day_of(following[0]).name}")


def problems(lines: Sequence[str], tasks: Sequence[Task]) -> None:
    """Print why files cannot be read, and what to do."""
    for line in lines:
        say(f"✗ {line}", color="red", bold=True)
    files = {LEARNER / task.target.file for task in tasks}
    for command in restoring(sorted(file for file in files if not file.exists())):
        say(f"    {command}")
    say("    Fix it and save; grading then resumes.")


def _printed(write: Callable[[], None]) -> list[str]:
    page = _Page()
    with contextlib.redirect_stdout(page):
        write()
    return page.getvalue().splitlines()
