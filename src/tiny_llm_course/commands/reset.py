"""`pdm run reset 1.1.2`: restore a stub in the learner's file, after a backup."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from ..course.entities import Task
from ..course.file_paths import name_of
from ..course.registry import UsageError, load_course
from ..course.selection import spelled
from ..learner.backups import back_up
from ..paths import LEARNER, SOLUTION
from ..source.languages import language_of_target
from ..source.package import stub_package
from ..terminal.screen import say
from .options import named_tasks, names_of_tasks


class Change(NamedTuple):
    """The new text of a file, and why: one line per thing done to it."""

    file: Path
    text: str
    why: list[str]


@click.command()
@names_of_tasks
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def reset(names: tuple[str, ...], week: int | None, day: int | None, yes: bool) -> int:
    """Restore the stub of a task (or of a day's tasks), after a backup of your file."""
    if not (tasks := named_tasks(names, week, day, "reset")):
        raise UsageError("Name a task or a day to reset:", "pdm run reset 1.1.1")
    stubs, paths = stub_package(SOLUTION, load_course()), dict.fromkeys(task.target.file for task in tasks)
    changes = [change for path in paths if (change := _change(path, stubs[path], tasks)).why]
    if not changes:
        say(f"{', '.join(task.id for task in tasks)}: already a stub, nothing to reset.")
        return 0
    places = [change.file if change.file.exists() else change.file.parent for change in changes]
    if denied := [name_of(place) for place in places if place.exists() and not os.access(place, os.W_OK)]:
        which = " ".join(dict.fromkeys(denied))
        raise UsageError(f"{which} cannot be written, so nothing was changed. To allow it:", f"chmod u+w {which}")
    say("\n".join(line for change in changes for line in change.why))
    if not yes:
        if not sys.stdin.isatty():
            again = f"pdm run reset {spelled(names, week, day)} --yes"
            raise UsageError("There is no terminal to ask on, so nothing was changed. To reset without asking:", again)
        say("Your current code will be backed up.")
        if not click.confirm("Continue?"):
            say("Nothing was changed.")
            return 1
    there = [change.file for change in changes if change.file.exists()]
    folder = back_up({file.relative_to(LEARNER).as_posix(): file.read_bytes() for file in there})
    for change in changes:
        try:
            change.file.parent.mkdir(parents=True, exist_ok=True)
            change.file.write_bytes(change.text.encode())
        except OSError as error:
            what = f"{name_of(change.file)} cannot be written: {error.strerror}."
            raise UsageError(what, "pdm run doctor") from error
    for file in there:
        say(f"To restore your file:\n  cp {name_of(folder / file.relative_to(LEARNER))} {name_of(file)}")
    say(f"Next: pdm run test {tasks[0].id}")
    return 0


def _change(path: str, stub: str, tasks: Sequence[Task]) -> Change:
    file = LEARNER / path
    name = name_of(file)
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError:
        return Change(file, stub, [f"{name} is missing: it will be restored, as stubs."])
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        return _whole(path, stub, "is not UTF-8")
    why = []
    for task in (task for task in tasks if task.target.file == path):
        before = text
        try:
            text, missing = language_of_target(task.target).reset(text, stub, task.target.name)
        except ValueError as error:
            return _whole(path, stub, str(error))
        if missing:
            why.append(f"{name}: {missing} ({task.label}) is missing: it will be restored, as a stub.")
        elif text != before:
            why.append(f"{name}: {task.target.name} ({task.label}) will be a stub again.")
    return Change(file, text, why)


def _whole(path: str, stub: str, reason: str) -> Change:
    """Return a change that replaces the whole file by its stub, naming all tasks that this affects."""
    file, inside = LEARNER / path, [task.id for task in load_course().tasks() if task.target.file == path]
    return Change(file, stub, [f"{name_of(file)} {reason}: the whole file becomes its stub, with {', '.join(inside)}."])
