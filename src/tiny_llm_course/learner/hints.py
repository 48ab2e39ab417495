"""A task's hints, shown one rung after another."""

from ..course.entities import Task
from ..course.file_paths import chapter
from ..terminal.screen import say
from . import progress


def next_rung(task: Task) -> int:
    """Return the number of the task's next hint and record it as shown; the last one repeats."""
    rung = min(progress.hints_seen(task.id) + 1, len(task.hints))
    progress.hint_shown(task.id, rung)
    return rung


def show(task: Task, rung: int, another: str = "") -> None:
    """Print a hint; `another` says how to get the next one if that is not a command."""
    say(f"{task.id} {task.title}, hint {rung} of {len(task.hints)}", bold=True)
    say(task.hints[rung - 1])
    if progress.hints_seen(task.id) < rung:
        say(progress.FORGOTTEN)
    elif rung < len(task.hints):
        say(f"Next hint: {another or f'pdm run hint {task.id}'}")
    else:
        say(f"That was the last hint. The chapter: {chapter(task)} (offline: pdm run book)")
