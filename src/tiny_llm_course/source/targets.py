"""What the learner has written of a task: where it is, and whether it is still a stub."""

from pathlib import Path

from ..course.entities import Target, Task
from ..paths import ROOT
from .code import text_of
from .languages import language_of_target


def where(target: Target, package: str) -> str:
    """Return `src/tiny_llm/basics.py:12`, the present line of the target."""
    line = language_of_target(target).line(text_of(ROOT / package / target.file) or "", target.name)
    return f"{package}/{target.file}" + (f":{line}" if line else "")


def holds_stub(task: Task, package: Path) -> bool:
    """Return whether the task's stub statement is still in its file."""
    return language_of_target(task.target).holds_stub(text_of(package / task.target.file) or "", task)


def is_within(place: str, task: Task, package: Path) -> bool:
    """Return whether a place, `src/tiny_llm/basics.py:12`, is in the learner's part of the task."""
    file, _, number = place.rpartition(":")
    path = package / task.target.file
    span = language_of_target(task.target).span(text_of(path) or "", task.target.name)
    return bool(span and ROOT / file == path and span[0] <= int(number) <= span[1])


def region(target: Target, package: Path) -> str | None:
    """Return the learner's part: a definition in Python, elsewhere the lines between the marks."""
    return language_of_target(target).region(text_of(package / target.file) or "", target.name)
