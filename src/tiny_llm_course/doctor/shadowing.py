"""Learner files that shadow a module or configure pytest: src/statistics.py, pytest.ini. Standard library only."""

import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from ..course.registry import with_commands
from ..paths import COURSE, LEARNER, ROOT, TESTS, shell_path
from . import Line

SOURCES = LEARNER.parent
STARTED_WITH_PYTHON = ("sitecustomize", "usercustomize")
BEFORE_PYPROJECT = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")


def shadowing_files() -> dict[Path, str]:
    """Return the files in src that shadow a module (src is first on Python's path) or run at start-up, and why."""
    places = {entry: Path(entry or ".").resolve() for entry in sys.path}
    # Python's path without this course or another copy of it.
    elsewhere = [entry for entry, place in places.items() if place != ROOT and not (place / COURSE.name).is_dir()]
    found = {}
    for path in sorted(SOURCES.iterdir()):
        name, shown = path.stem, path.relative_to(ROOT).as_posix()
        if not (any(path.glob("*.py")) if path.is_dir() else path.suffix == ".py"):
            continue
        if name in STARTED_WITH_PYTHON:
            found[path] = f"{shown} runs whenever Python starts here, before your code and the tests."
        elif name in sys.stdlib_module_names:
            found[path] = f"{shown} shadows Python's own {name}, in your code and in the tests."
        elif PathFinder.find_spec(name, elsewhere):
            found[path] = f"{shown} shadows the library {name}, in your code and in the tests."
    return found


def startup_problem() -> str:
    """Return the message, with a fix, if a file in src runs when Python starts; else ""."""
    found = [(text, path) for path, text in shadowing_files().items() if path.stem in STARTED_WITH_PYTHON]
    return with_commands(f"{found[0][0]} Move it away:", _aside(found[0][1])) if found else ""


def shadowing() -> Iterator[Line]:
    """Report files where Python or pytest look first."""
    for path, text in shadowing_files().items():
        yield Line("src", text, fix=_aside(path), stops=True)
    folders = (ROOT, TESTS, *sorted(TESTS.glob("week*")))
    for path in (folder / name for folder in folders for name in BEFORE_PYPROJECT):
        if path.exists():
            shown = path.relative_to(ROOT).as_posix()
            text = f"{shown} overrides the course's pyproject.toml in your editor; pdm run test ignores it."
            yield Line("pytest", text, fix=_aside(path))
    for path in (folder / "conftest.py" for folder in folders):
        if path.exists():
            text = f"{path.relative_to(ROOT).as_posix()} is run by your editor's tests; pdm run test ignores it"
            yield Line("pytest", text, absent=True)


def _aside(path: Path) -> str:
    return f"mv {shell_path(path)} {shell_path(path.with_name(f'{path.name}.old'))}"
