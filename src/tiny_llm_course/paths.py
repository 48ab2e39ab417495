"""Where the parts of the checkout are; TINY_LLM_ROOT names another one, such as the harness's tests have."""

import os
import shlex
import sys
from contextlib import suppress
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

COURSE = Path(__file__).resolve().parent  # the harness's own code
WATCHERS = COURSE.with_name("memory_watch"), COURSE.with_name("metal_simulator")  # what it runs kernels with
ROOT = Path(os.environ.get("TINY_LLM_ROOT") or COURSE.parents[1]).resolve()
LEARNER = ROOT / "src" / "tiny_llm"
SOLUTION = ROOT / "solutions" / "tiny_llm"
TESTS = ROOT / "tests"
BOOK = ROOT / "book"
REGISTRY = ROOT / "src" / "tiny_llm_course" / "course" / "tasks"  # a file a week
MODELS = ROOT / "models"
EMBEDDED_MODEL = MODELS / "tiny-qwen3"


def typed(file: Path) -> str:
    """A file in a command that somebody shall type: as seen from the folder that they stand in."""
    with suppress(OSError):  # that folder is gone
        if Path.cwd().is_relative_to(ROOT):
            return shlex.quote(os.path.relpath(file))
    return shlex.quote(str(file))


def make_importable() -> None:
    """Let `tests.week1.formulas` and `book.generate.week1.widgets` be imported, whatever else has such a name here."""
    for folder in (TESTS, BOOK):
        if folder.name not in sys.modules:
            package = ModuleType(folder.name)
            package.__path__ = [str(folder)]
            sys.modules[folder.name] = package


class _AsItIs(SourceFileLoader):
    """Compiles a file whenever it is imported, and keeps no bytecode.

    Python takes what is kept if the file has the same size and was written in the same second. A learner who exchanges
    a sign and saves is quicker than that.
    """

    def path_stats(self, path: Any) -> NoReturn:
        raise OSError("nothing is kept")


def put_first(package: Path) -> None:
    """Let `tiny_llm` be the one in this folder, whatever else is installed; a learner's files count as they are now."""
    sys.path.insert(0, str(package.parent))
    if _finder_of_learners_files not in sys.path_hooks:
        sys.path_hooks.insert(0, _finder_of_learners_files)


def _finder_of_learners_files(folder: str) -> FileFinder:
    if not Path(folder).is_relative_to(LEARNER):
        raise ImportError
    return FileFinder(folder, (_AsItIs, SOURCE_SUFFIXES))
