"""Generate the learner's package, write it, and report where a committed one differs."""

import os
from collections.abc import Collection
from functools import cache
from pathlib import Path

from ..course.entities import Target, Task
from ..course.registry import Course
from .language import YOUR_CODE
from .languages import language_of


def stub_package(solution_dir: Path, course: Course, solved: Collection[str] = ()) -> dict[str, str]:
    """Return the text of every file of the learner's package, by path, with the `solved` tasks' code left in.

    Files in no language of learners are copied as data, invalid UTF-8 escaped. Raise ValueError, naming the file, if a
    target's file is missing or no stub can be made of it.
    """
    tasks_by_file: dict[str, dict[str, Task]] = {}
    for task in course.tasks():
        tasks_by_file.setdefault(task.target.file, {})[task.target.name] = task
    files = _texts(solution_dir)
    for path, tasks in tasks_by_file.items():
        if path not in files:
            named = ", ".join(sorted({task.id for task in tasks.values()}))
            raise ValueError(f"there is no {path} in {solution_dir}, where the targets of {named} should be")
    return {path: _stub(path, text, tasks_by_file.get(path, {}), course, solved) for path, text in files.items()}


def write_stubs(solution_dir: Path, learner_dir: Path, course: Course, solved: Collection[str] = ()) -> list[str]:
    """Write the generated package and return the paths of changed files. Files that are not generated are kept."""
    present = _texts(learner_dir)
    written = []
    for path, text in stub_package(solution_dir, course, solved).items():
        if present.get(path) != text:
            (learner_dir / path).parent.mkdir(parents=True, exist_ok=True)
            (learner_dir / path).write_bytes(text.encode(errors="surrogateescape"))
            written.append(path)
    return written


def differences(solution_dir: Path, learner_dir: Path, course: Course) -> list[str]:
    """Return a line for each file that is missing, not generated, or different from the generated one."""
    wanted, present = stub_package(solution_dir, course), _texts(learner_dir)
    found = []
    for path in sorted(wanted.keys() | present.keys()):
        if path not in present:
            found.append(f"{path} is missing")
        elif path not in wanted:
            found.append(f"{path} is not in the solution")
        elif present[path] != wanted[path]:
            ones, others = present[path].split("\n"), wanted[path].split("\n")  # one may be a prefix of the other
            pairs = enumerate(zip(ones, others, strict=False), 1)
            line = next((i for i, (a, b) in pairs if a != b), min(len(ones), len(others)) + 1)
            found.append(f"{path} differs from the generated stub at line {line}")
    return found


def files_of(directory: Path) -> list[str]:
    """Return the paths of a package's files, without caches and hidden files."""
    found = []
    for folder, folders, names in os.walk(directory):
        folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith(".")]
        found += [Path(folder, name).relative_to(directory).as_posix() for name in names if not name.startswith(".")]
    return sorted(found)


def _stub(path: str, text: str, tasks: dict[str, Task], course: Course, solved: Collection[str]) -> str:
    here = frozenset(name for name, task in tasks.items() if task.id in solved)
    needed = frozenset(course.task(need).program for task in tasks.values() for need in task.needs)
    return _stub_of(path, text, tuple(tasks.items()), here, needed)


@cache  # recorded sessions make dozens of packages, which differ in a few files
def _stub_of(
    path: str, text: str, tasks: tuple[tuple[str, Task], ...], solved: frozenset[str], needed: frozenset[Target]
) -> str:
    language = language_of(path)
    try:
        if language is None and YOUR_CODE in text:
            raise ValueError("it is marked, and no language that a learner writes in")
        return language.stub(text, dict(tasks), solved, needed) if language else text
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _texts(directory: Path) -> dict[str, str]:
    texts = {path: (directory / path).read_bytes().decode(errors="surrogateescape") for path in files_of(directory)}
    return {path: text.replace("\r\n", "\n") if language_of(path) else text for path, text in texts.items()}
