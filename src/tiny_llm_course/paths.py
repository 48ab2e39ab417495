"""Where the parts of the checkout are; TINY_LLM_ROOT names another one, such as the harness's tests have."""

import os
import shlex
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType

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
