"""`pdm run reset 1.1.2`: a stub again where the learner wrote something, after a backup."""

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from .backups import back_up
from .functions import module_path
from .options import names_of_tasks
from .paths import LEARNER, ROOT, SOLUTION
from .registry import Task, UsageError, load_course
from .reset import is_python, reset_target
from .screen import say
from .selection import selected, spelled


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
    copies = back_up(there, LEARNER)
    for change in changes:
        _write(change)
    for file, copy in zip(there, copies, strict=True):
        say("To get your file back as it was:")
        say(f"  cp {_short(copy)} {_short(file)}")
    say(f"Next: pdm run test {tasks[0].id}")
    return 0


def _changes(tasks: Sequence[Task]) -> list[Change]:
    """The files that are to be changed for these tasks; none if all are stubs already."""
    from . import stubs

    package = stubs.stub_package(SOLUTION, load_course())
    changes = []
    for module in dict.fromkeys(target.module for task in tasks for target in task.targets):
        file = module_path(LEARNER, module)
        stub = package[file.relative_to(LEARNER).as_posix()]
        change = _change(file, module, stub, tasks)
        if change.why:
            changes.append(change)
    return changes


def _change(file: Path, module: str, stub: str, tasks: Sequence[Task]) -> Change:
    name = _short(file)
    try:
        text = before = file.read_bytes().decode()
    except FileNotFoundError:
        return Change(file, stub, [f"{name} is gone: all of it comes back, as stubs."])
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError:
        return _whole(file, module, stub, "is not text in UTF-8")
    if not is_python(text):
        return _whole(file, module, stub, "is not Python")
    why = []
    for task in tasks:
        for target in task.targets:
            if target.module != module:
                continue
            text_before = text
            text, missing = reset_target(text, stub, target.name)
            if missing:
                why.append(f"{name}: {missing} ({task.label}) is gone: it comes back, as a stub.")
            elif text != text_before:
                why.append(f"{name}: {target.name} ({task.label}) becomes a stub again.")
    if text != before and not is_python(text):
        return _whole(file, module, stub, "does not take the stub where it would stand")
    return Change(file, text, why)


def _whole(file: Path, module: str, stub: str, reason: str) -> Change:
    """All of the file becomes its stub, also what was not asked for: that is to be said."""
    inside = [task.id for task in load_course().tasks() if any(target.module == module for target in task.targets)]
    return Change(file, stub, [f"{_short(file)} {reason}: all of it becomes its stub, with {', '.join(inside)}."])


def _must_be_writable(files: Sequence[Path]) -> None:
    """Raise a UsageError, with the command that helps, before anything is asked or copied."""
    places = [file if file.exists() else file.parent for file in files]
    if denied := [_short(place) for place in places if place.exists() and not os.access(place, os.W_OK)]:
        names = " ".join(dict.fromkeys(denied))
        raise UsageError(f"{names} cannot be written, so nothing was changed. To allow it:", f"chmod u+w {names}")


def _write(change: Change) -> None:
    try:
        change.file.parent.mkdir(parents=True, exist_ok=True)
        change.file.write_bytes(change.text.encode())
    except OSError as error:
        raise UsageError(f"{_short(change.file)} cannot be written: {error.strerror}.", "pdm run doctor") from error


def _short(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
