"""Files of the learner's that Python or pytest take for something else: a src/statistics.py, a pytest.ini.

It stands on the standard library, for `doctor`.
"""

import sys
from collections.abc import Iterator
from importlib.machinery import PathFinder
from pathlib import Path

from ..course.registry import with_commands
from ..paths import COURSE, LEARNER, ROOT, TESTS, typed
from .lines import Line

SOURCES = LEARNER.parent
STARTED_WITH_PYTHON = ("sitecustomize", "usercustomize")
BEFORE_PYPROJECT = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini")


def hiding() -> dict[Path, str]:
    """What in src is imported in the place of something else, or whenever Python starts; each with a sentence on it.

    While the learner's package is graded or runs, src comes first on Python's path. A package without an __init__.py,
    as `mlx` is one, is hidden even by what comes last.
    """
    found = {}
    for path in sorted(SOURCES.iterdir()):
        name, shown = path.stem, path.relative_to(ROOT).as_posix()
        if not (any(path.glob("*.py")) if path.is_dir() else path.suffix == ".py"):
            continue
        if name in STARTED_WITH_PYTHON:
            found[path] = f"{shown} runs whenever Python starts here, before your code and the tests."
        elif name in sys.stdlib_module_names:
            found[path] = f"{shown} is taken for Python's own {name}, by your code and by the tests."
        elif PathFinder.find_spec(name, _elsewhere()):
            found[path] = f"{shown} is taken for the library {name}, by your code and by the tests."
    return found


def run_at_start() -> str:
    """Where something in src runs whenever Python starts: that, and the command that moves it aside; else ""."""
    found = [(text, path) for path, text in hiding().items() if path.stem in STARTED_WITH_PYTHON]
    return with_commands(f"{found[0][0]} Put it aside:", _aside(found[0][1])) if found else ""


def _elsewhere() -> list[str]:
    """Python's path without this course, and without another copy of it."""
    places = {entry: Path(entry or ".").resolve() for entry in sys.path}
    return [entry for entry, place in places.items() if place != ROOT and not (place / COURSE.name).is_dir()]


def strangers() -> Iterator[Line]:
    """What stands where Python or pytest look first."""
    for path, text in hiding().items():
        yield Line("src", text, fix=_aside(path), stops=True)
    folders = (ROOT, TESTS, *sorted(TESTS.glob("week*")))
    for path in (folder / name for folder in folders for name in BEFORE_PYPROJECT):
        if path.exists():
            shown = path.relative_to(ROOT).as_posix()
            text = f"{shown} comes before the course's pyproject.toml in your editor; pdm run test leaves it aside."
            yield Line("pytest", text, fix=_aside(path))
    for path in (folder / "conftest.py" for folder in folders):
        if path.exists():
            text = f"{path.relative_to(ROOT).as_posix()} is run by your editor's tests; pdm run test leaves it aside"
            yield Line("pytest", text, absent=True)


def _aside(path: Path) -> str:
    return f"mv {typed(path)} {typed(path.with_name(f'{path.name}.old'))}"
