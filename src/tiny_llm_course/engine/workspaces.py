"""The workspace of an agent: its tools, by the learner's code or ours, and the journals of what its runs changed."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..course.registry import LearnerError, UsageError, load_course, with_commands
from ..learner import progress
from .package import Package

TASKS = ("7.4.1", "7.4.2", "7.4.3", "7.4.4")
MOST_RUNS = 50  # whose journals are kept, over all workspaces
Approve = Callable[[str, str], bool]


def unfinished(solution: bool) -> list[str]:
    """Return the learner's tasks of the workspace tools that have not passed; the solution has all."""
    tasks = [] if solution else [load_course().task(task) for task in TASKS]
    return [task.label for task in tasks if not progress.done(task)]


def must_be_finished(what: str, solution: bool) -> None:
    """Raise LearnerError, which names the first missing task, if the workspace tools cannot be used."""
    if tasks := unfinished(solution):
        words = f"{what} needs the workspace tools, and {tasks[0]} has not passed (with --solution, ours runs)."
        raise LearnerError(with_commands(f"{words} Your next step:", "pdm run status"))


@contextmanager
def opened(
    package: Package, folder: Path, approve: Approve, *, dry_run: bool = False, log: Path | None = None
) -> Iterator[tuple[Any, Any]]:
    """Open a workspace with a journal of its own, or the journal of the run with this log; yield tools and changes.

    Raise UsageError if the folder cannot be a workspace.
    """
    journals = _journals(folder)
    if journals.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{folder} cannot be a workspace: it contains {journals}, where its old files are kept.")
    _prune(journals.parent)
    name = f"0-{digest(os.fsencode(log.resolve()))}" if log else str(time.time_ns())
    with _changes(package, folder, journals / name, approve, dry_run) as (tools, changes):
        yield tools, changes


def undo(package: Package, folder: Path) -> Iterator[str]:
    """Undo the last run that changed a workspace, step by step, and delete its new folders; yield what was undone.

    Raise UsageError if there is none, or if a file has changed since.
    """
    runs = sorted(filter(can_be_undone, _journals(folder).glob("[0-9]*")), key=_time)
    if not runs:
        raise UsageError(f"There is nothing to undo in {folder}.")
    with _changes(package, folder, runs[-1], lambda action, details: True) as (_, changes):
        while len(changes.journal):
            try:
                yield changes.undo()
            except (OSError, ValueError) as error:
                raise UsageError(f"{error}. Nothing more was undone.") from error
        removed = package.part("workspace.searching", "remove_folders")(changes.root, changes.journal.folders)
        changes.journal.folders = []
        if removed:
            yield f"removed: {', '.join(f'{path}/' for path in removed)}"


def can_be_undone(journal: Path) -> bool:
    """Return whether a run has changed something: its journal has a file."""
    return any(journal.glob("*.json"))


def _time(journal: Path) -> int:
    with suppress(FileNotFoundError):  # another run has deleted it
        return journal.stat().st_mtime_ns
    return 0


def _prune(workspaces: Path) -> None:
    """Delete all journals but the last MOST_RUNS."""
    for run in sorted(workspaces.glob("*/[0-9]*"), key=_time)[:-MOST_RUNS]:
        shutil.rmtree(run, ignore_errors=True)
    for workspace in workspaces.glob("*"):
        with suppress(OSError):
            workspace.rmdir()  # which fails if it has journals


@contextmanager
def _changes(
    package: Package, folder: Path, journal: Path, approve: Approve, dry_run: bool = False
) -> Iterator[tuple[Any, Any]]:
    try:
        tools, changes = package.part("workspace.tools", "open_workspace")(folder, journal, approve, dry_run=dry_run)
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} cannot be a workspace: {error}.") from error
    try:
        with changes.root:
            yield tools, changes
    finally:
        with suppress(OSError):
            journal.rmdir()  # which fails if it has steps


def _journals(folder: Path) -> Path:
    """Return where the journals of a workspace are; not by XDG_STATE_HOME, which MCP clients do not pass on."""
    return Path.home() / ".local" / "state" / "tiny-llm" / "undo" / digest(os.fsencode(folder.resolve()))


def digest(name: bytes) -> str:
    """Return a short name for a path."""
    return hashlib.sha256(name).hexdigest()[:16]
