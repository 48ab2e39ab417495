"""What the learner has written of a task: where it is, and whether it is still a stub."""

from pathlib import Path

from ..course.nouns import Target, Task
from ..paths import ROOT
from .code import text_of
from .languages import language_of_target


def where(target: Target, package: str) -> str:
    """`src/tiny_llm/basics.py:12`, the line of the target as the file is now."""
    line = language_of_target(target).line(text_of(ROOT / package / target.file) or "", target.name)
    return f"{package}/{target.file}" + (f":{line}" if line else "")


def holds_stub(task: Task, package: Path) -> bool:
    """Whether the file of a task still holds what its stub does: nobody has finished it, whatever it waits for."""
    return language_of_target(task.target).holds_stub(text_of(package / task.target.file) or "", task)


def is_within(place: str, task: Task, package: Path) -> bool:
    """Whether a place in the package, `src/tiny_llm/basics.py:12`, is in what the learner writes of the task."""
    file, _, number = place.rpartition(":")
    path = package / task.target.file
    span = language_of_target(task.target).span(text_of(path) or "", task.target.name)
    return bool(span and ROOT / file == path and span[0] <= int(number) <= span[1])


def region(target: Target, package: Path) -> str | None:
    """The text of what the learner writes: a definition in Python, what stands between the marks elsewhere."""
    return language_of_target(target).region(text_of(package / target.file) or "", target.name)
