"""The hints of a task, one rung after another, and the memory of how far somebody has asked."""

from ..course.nouns import Task
from ..course.places import chapter
from ..terminal.screen import say
from . import progress


def next_rung(task: Task) -> int:
    """The number of the next hint of a task, remembered as shown; the last one comes again and again."""
    rung = min(progress.hints_seen(task.id) + 1, len(task.hints))
    progress.hint_shown(task.id, rung)
    return rung


def show(task: Task, rung: int, another: str = "") -> None:
    """Print a hint; `another` is what to type for the next one, where that is not a command."""
    say(f"{task.id} {task.title}, hint {rung} of {len(task.hints)}", bold=True)
    say(task.hints[rung - 1])
    if progress.hints_seen(task.id) < rung:
        say(progress.FORGOTTEN)
    elif rung < len(task.hints):
        say(f"The next one: {another or f'pdm run hint {task.id}'}")
    else:
        say(f"That was the last one. The chapter: {chapter(task)}")
