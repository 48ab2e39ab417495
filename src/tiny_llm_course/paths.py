"""Paths in the checkout; TINY_LLM_ROOT overrides its root, as in the harness's tests."""

import os
import shlex
import sys
from contextlib import suppress
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

COURSE = Path(__file__).resolve().parent  # the harness
WATCHERS = COURSE.with_name("memory_watch"), COURSE.with_name("metal_simulator")  # what runs kernels
ROOT = Path(os.environ.get("TINY_LLM_ROOT") or COURSE.parents[1]).resolve()
LEARNER = ROOT / "src" / "tiny_llm"
SOLUTION = ROOT / "solutions" / "tiny_llm"
TESTS = ROOT / "tests"
BOOK = ROOT / "book"
REGISTRY = ROOT / "src" / "tiny_llm_course" / "course" / "tasks"  # a file a week
MODELS = ROOT / "models"
EMBEDDED_MODEL = MODELS / "tiny-qwen3"
PUBLISHED: dict[str, bytes] = {}  # by path: what is loaded in place of the learner's copies of given files


def shell_path(file: Path) -> str:
    """Return a file's quoted path for a command, relative to the current folder if that is in the checkout."""
    with suppress(OSError):  # the current folder no longer exists
        if Path.cwd().is_relative_to(ROOT):
            return shlex.quote(os.path.relpath(file))
    return shlex.quote(str(file))


def make_importable() -> None:
    """Make `tests.week1.formulas` and `book.generate.week1.widgets` importable, whatever else has these names."""
    for folder in (TESTS, BOOK):
        if folder.name not in sys.modules:
            package = ModuleType(folder.name)
            package.__path__ = [str(folder)]
            sys.modules[folder.name] = package


class _UncachedLoader(SourceFileLoader):
    """Compiles on every import: bytecode is stale after an edit of equal size within the same second."""

    def path_stats(self, path: Any) -> NoReturn:
        raise OSError("no bytecode cache")

    def get_data(self, path: str) -> bytes:
        return PUBLISHED[path] if path in PUBLISHED else super().get_data(path)


def put_first(package: Path) -> None:
    """Make `tiny_llm` the package in this folder, and always import the learner's files from source."""
    sys.path.insert(0, str(package.parent))
    if _learner_finder not in sys.path_hooks:
        sys.path_hooks.insert(0, _learner_finder)


def _learner_finder(folder: str) -> FileFinder:
    if not Path(folder).is_relative_to(LEARNER):
        raise ImportError
    return FileFinder(folder, (_UncachedLoader, SOURCE_SUFFIXES))
