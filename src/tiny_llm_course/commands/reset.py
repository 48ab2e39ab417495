"""`pdm run reset 1.1.2`: a stub again where the learner wrote something, after a backup."""

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ..course.nouns import Task
from ..course.places import name_of
from ..course.registry import UsageError, load_course
from ..course.selection import selected, spelled
from ..learner.backups import back_up
from ..paths import LEARNER, SOLUTION
from ..terminal.screen import say
from .options import names_of_tasks


@dataclasses.dataclass
class Change:
    """What a file is to become, and why, a line for each thing that is done to it."""

    file: Path
    text: str
    why: list[str]


@click.command(short_help="Put a task's stub back, and keep a copy of what you wrote.")
@names_of_tasks
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(names: tuple[str, ...], week: int | None, day: int | None, yes: bool) -> int:
    """Put the stub of a task (or of a day's tasks) back, after a backup of your file."""
    if not names and week is None and day is None:
        raise UsageError("Say what to reset, a task or a day:", "pdm run reset 1.1.1")
    chosen = selected(names, week, day, "reset")
    tasks = [task for task in load_course().tasks() if task in chosen]
    changes = _changes(tasks)
    if not changes:
        say(f"{', '.join(task.id for task in tasks)}: the stub is there already, so there is nothing to reset.")
        return 0
    _must_be_writable([change.file for change in changes])
    for line in (line for change in changes for line in change.why):
        say(line)
    if not yes:
        if not sys.stdin.isatty():
            again = f"pdm run reset {spelled(names, week, day)} --yes"
            raise UsageError("There is no terminal to ask on, so nothing was changed. To go on without:", again)
        say("A backup of what is there now will be kept.")
        if not click.confirm("Go on?"):
            say("Nothing was changed.")
            return 1
    there = [change.file for change in changes if change.file.exists()]
    folder = back_up({file.relative_to(LEARNER).as_posix(): file.read_bytes() for file in there})
    for change in changes:
        try:
            change.file.parent.mkdir(parents=True, exist_ok=True)
            change.file.write_bytes(change.text.encode())
        except OSError as error:
            name = name_of(change.file)
            raise UsageError(f"{name} cannot be written: {error.strerror}.", "pdm run doctor") from error
    for file in there:
        say("To get your file back as it was:")
        say(f"  cp {name_of(folder / file.relative_to(LEARNER))} {name_of(file)}")
    say(f"Next: pdm run test {tasks[0].id}")
    return 0


def _changes(tasks: Sequence[Task]) -> list[Change]:
    """The files that are to be changed for these tasks; none if all are stubs already."""
    from ..source.package import stub_package

    stubs = stub_package(SOLUTION, load_course())
    changes = []
    for path in dict.fromkeys(task.target.file for task in tasks):
        change = _change(path, stubs[path], tasks)
        if change.why:
            changes.append(change)
    return changes


def _change(path: str, stub: str, tasks: Sequence[Task]) -> Change:
    from ..source.languages import language_of_target

    file = LEARNER / path
    name = name_of(file)
    try:
        text = file.read_bytes().decode()
    except FileNotFoundError:
        return Change(file, stub, [f"{name} is gone: all of it comes back, as stubs."])
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        return _whole(path, stub, "is not text in UTF-8")
    why = []
    for task in (task for task in tasks if task.target.file == path):
        before = text
        try:
            text, missing = language_of_target(task.target).reset(text, stub, task.target.name)
        except ValueError as error:
            return _whole(path, stub, str(error))
        if missing:
            why.append(f"{name}: {missing} ({task.label}) is gone: it comes back, as a stub.")
        elif text != before:
            why.append(f"{name}: {task.target.name} ({task.label}) becomes a stub again.")
    return Change(file, text, why)


def _whole(path: str, stub: str, reason: str) -> Change:
    """All of the file becomes its stub, also what was not asked for: that is to be said."""
    file, inside = LEARNER / path, [task.id for task in load_course().tasks() if task.target.file == path]
    return Change(file, stub, [f"{name_of(file)} {reason}: all of it becomes its stub, with {', '.join(inside)}."])


def _must_be_writable(files: Sequence[Path]) -> None:
    """Raise a UsageError, with the command that helps, before anything is asked or copied."""
    places = [file if file.exists() else file.parent for file in files]
    if denied := [name_of(place) for place in places if place.exists() and not os.access(place, os.W_OK)]:
        names = " ".join(dict.fromkeys(denied))
        raise UsageError(f"{names} cannot be written, so nothing was changed. To allow it:", f"chmod u+w {names}")
