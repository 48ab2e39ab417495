"""Where the parts of the checkout are; TINY_LLM_ROOT names another one, such as the harness's tests have."""

import os
import sys
from pathlib import Path
from types import ModuleType

COURSE = Path(__file__).resolve().parent  # the harness's own code
ROOT = Path(os.environ.get("TINY_LLM_ROOT") or COURSE.parents[1]).resolve()
LEARNER = ROOT / "src" / "tiny_llm"
SOLUTION = ROOT / "solutions" / "tiny_llm"
TESTS = ROOT / "tests"
BOOK = ROOT / "book"
REGISTRY = ROOT / "src" / "tiny_llm_course" / "course" / "tasks"  # a file a week
MODELS = ROOT / "models"
EMBEDDED_MODEL = MODELS / "tiny-qwen3"


def make_importable() -> None:
    """Let `tests.week1.formulas` and `book.generate.week1.widgets` be imported, whatever else has such a name here."""
    for folder in (TESTS, BOOK):
        if folder.name not in sys.modules:
            package = ModuleType(folder.name)
            package.__path__ = [str(folder)]
            sys.modules[folder.name] = package
