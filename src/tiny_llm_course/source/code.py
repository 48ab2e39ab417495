"""The code of a task: where it is, whether it is still a stub, and fingerprints that change with it."""

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ..course.entities import Target, Task
from ..course.registry import load_course
from ..paths import ROOT
from .language import Reach
from .languages import language_of, language_of_target


class Code:
    """The learner's package; each file is read once."""

    def __init__(self, package: Path) -> None:
        self._package = package
        self._texts: dict[str, str | OSError] = {}
        self._reaches: dict[str, list[tuple[str, Reach]]] = {}
        self._targets: dict[str, set[str]] = {}
        for task in load_course().tasks():
            self._targets.setdefault(task.target.file, set()).add(task.target.name)

    def fingerprint(self, task: Task) -> str | None:
        """Hash a task's own code without comments, docstrings and layout; None if its file cannot be read."""
        if isinstance(self._text(task.target.file), OSError):
            return None
        parts = [part for file, reach in self._reached(task) for part in (file, *reach.code)]
        return hashlib.sha256("\0".join(parts).encode(errors="backslashreplace")).hexdigest()

    def with_needs(self, task: Task) -> str:
        """Return the fingerprints of a task and of the tasks that it needs."""
        return " ".join(str(self.fingerprint(each)) for each in _with_needs(task))

    def files(self, tasks: Iterable[Task]) -> list[str]:
        """Return the files of the package that hold code of these tasks or of what they need."""
        needed = {need.id: need for task in tasks for need in _with_needs(task)}
        files = {need.target.file for need in needed.values()}
        return sorted(files | {file for need in needed.values() for file, _ in self._reached(need)})

    def reached(self, task: Task) -> list[tuple[str, str, list[str]]]:
        """Return the files that hold code of a task: path, text, and the parts that are the task's."""
        return [(file, str(self._text(file)), reach.code) for file, reach in self._reached(task)]

    def problems(self, tasks: Iterable[Task]) -> list[str]:
        """Report each file of these tasks that is missing or cannot be read."""
        return [problem for file in self.files(tasks) if (problem := self._problem(file))]

    def _reached(self, task: Task) -> list[tuple[str, Reach]]:
        if task.id not in self._reaches:
            found = self._reaches[task.id] = []
            waiting: list[tuple[str, str | None]]
            waiting = [(part.file, part.name) for part in dict.fromkeys([task.target, task.program])]
            for file, name in waiting:  # which grows meanwhile
                language, text = language_of(file), self._text(file)
                if language and isinstance(text, str):
                    found.append((file, language.reach(text, file, name, self._targets)))
                    more = dict.fromkeys(found[-1][1].files)
                    waiting += [(one, None) for one in more if (one, None) not in waiting]
        return self._reaches[task.id]

    def _text(self, file: str) -> str | OSError:
        if file not in self._texts:
            try:
                self._texts[file] = _read(self._package / file)
            except OSError as error:
                self._texts[file] = error
        return self._texts[file]

    def _problem(self, file: str) -> str:
        path, text, language = self._package / file, self._text(file), language_of(file)
        shown = (path.relative_to(ROOT) if path.is_relative_to(ROOT) else path).as_posix()
        if isinstance(text, FileNotFoundError):
            return f"{shown} is not there"
        if isinstance(text, OSError):
            return f"{shown} cannot be read: {text.strerror}"
        fault = language.fault(text) if language else ""
        return fault and f"{shown}{fault}"


def fingerprint(task: Task, package: Path) -> str | None:
    """Return the fingerprint of a task's code as it is now."""
    return Code(package).fingerprint(task)


def _read(file: Path) -> str:
    """Return a file's text with \\n as line ends and invalid UTF-8 escaped."""
    return file.read_text(encoding="utf-8", errors="surrogateescape").lstrip("\ufeff")


def _text_of(file: Path) -> str:
    with suppress(OSError):
        return _read(file)
    return ""


def _with_needs(task: Task) -> list[Task]:
    return [task, *map(load_course().task, load_course().needs(task.id))]


def where(target: Target, package: str) -> str:
    """Return `src/tiny_llm/basics.py:12`, the present line of the target."""
    line = language_of_target(target).line(_text_of(ROOT / package / target.file), target.name)
    return f"{package}/{target.file}" + (f":{line}" if line else "")


def holds_stub(task: Task, package: Path) -> bool:
    """Return whether the task's stub statement is still in its file."""
    return language_of_target(task.target).holds_stub(_text_of(package / task.target.file), task)


def is_within(place: str, task: Task, package: Path) -> bool:
    """Return whether a place, `src/tiny_llm/basics.py:12`, is in the learner's part of the task."""
    file, _, number = place.rpartition(":")
    path = package / task.target.file
    span = language_of_target(task.target).span(_text_of(path), task.target.name)
    return bool(span and ROOT / file == path and span[0] <= int(number) <= span[1])


def region(target: Target, package: Path) -> str | None:
    """Return the learner's part: a definition in Python, elsewhere the lines between the marks."""
    return language_of_target(target).region(_text_of(package / target.file), target.name)
