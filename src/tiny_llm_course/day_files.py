"""The files of a day's tests, which grading cannot do without."""

from pathlib import Path

from .paths import ROOT, TESTS
from .registry import Day, UsageError

BRING_BACK = "Bring it back: git checkout -- tests"


def tests_path(day: Day) -> Path:
    """The file of a day's tests."""
    return TESTS / f"week{day.week}" / f"test_day{day.number}.py"


def variants_path(day: Day) -> Path:
    """The file of a day's variants, beside its tests."""
    return TESTS / f"week{day.week}" / f"variants_day{day.number}.py"


def must_be_there(day: Day) -> None:
    """Raise a UsageError if one of the two is not a file."""
    for file in (tests_path(day), variants_path(day)):
        if not file.is_file():
            raise UsageError(f"{file.relative_to(ROOT).as_posix()} is missing. {BRING_BACK}")


def no_check(day: Day, task: str) -> UsageError:
    """What to raise if the tests of a day have lost a task's checks."""
    return UsageError(f"{tests_path(day).relative_to(ROOT).as_posix()} holds no check of {task}. {BRING_BACK}")
