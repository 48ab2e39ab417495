"""Where the files of a day and of a package's modules are; only this module knows."""

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from ..paths import BOOK, COURSE, REGISTRY, ROOT, TESTS, shell_path
from .entities import Day, Target, Task
from .registry import UsageError, load_course

SHARED = re.compile(r"^from tests\.(\w+)\.(\w+) import", re.MULTILINE)
ASKS_PYTORCH = re.compile(r"^def test_\w+\([^)]*\bpytorch\b", re.MULTILINE)


def registry_path(week: int) -> Path:
    """Return the week's part of the registry."""
    return REGISTRY / f"week{week}.toml"


def tests_path(task: Task) -> Path:
    """Return the file of a task's graded tests: its own if there is one, else its day's."""
    stem = "checks" if task.judges else f"day{task.day}"
    own = _of_week(TESTS, task.week, f"test_{stem}_task{task.number}.py")
    return own if own.is_file() else _of_week(TESTS, task.week, f"test_{stem}.py")


def tests_paths(tasks: Iterable[Task]) -> list[Path]:
    """Return the files of the graded tests of some tasks, each once."""
    return list(dict.fromkeys(map(tests_path, tasks)))


def recordings_path(day: Day) -> Path:
    """Return the file of PyTorch's recorded answers for the day's tests."""
    return _of_week(TESTS, day.week, f"torch_{day.stem}.npz")


def variants_path(task: Task) -> Path:
    """Return the file of the task's known programs."""
    return _of_week(TESTS, task.week, f"variants_{task.id.replace('.', '_')}.py")


def chapter_path(day: Day) -> Path:
    """Return the day's chapter."""
    return BOOK / "src" / day.chapter


def quiz_path(day: Day) -> Path:
    """Return the day's quiz."""
    return _of_week(BOOK / "quizzes", day.week, f"{day.stem}.py")


def bench_path(day: Day) -> Path:
    """Return the day's benchmark."""
    return _of_week(ROOT / "benches", day.week, f"{day.stem}.py")


def record_path(day: Day) -> Path:
    """Return the recorded result of the day's benchmark."""
    return bench_path(day).with_suffix(".json")


def files_that_call(package: Path) -> set[Path]:
    """Return the given files of a package through which kernels are called."""
    return {package / Target.parse(week.calls).file for week in load_course().weeks if week.calls}


def _of_week(folder: Path, week: int, name: str) -> Path:
    return folder / f"week{week}" / name


def name_of(file: Path) -> str:
    """Return a file's path from the root, as messages name it."""
    return file.relative_to(ROOT).as_posix()


def chapter(task: Task) -> str:
    """Return the address of the task's chapter, as messages name it: the file itself lacks what is inserted into it."""
    return f"{book_address()}{load_course().day_of(task).chapter.removesuffix('.md')}.html"


@cache
def book_address() -> str:
    """Return the address at which the book is published, which ends with a slash."""
    settings = tomllib.loads((COURSE.parents[1] / "book" / "book.toml").read_text(encoding="utf-8"))
    return str(settings["output"]["html"]["site-url"])


@cache
def day_of(file: Path) -> Day | None:
    """Return the day whose graded tests are in a file, if any."""
    file = file.resolve()  # an editor may come through a symbolic link, as /tmp is one on a Mac
    return next((day for day in load_course().days() if file in tests_paths(day.tasks)), None)


def day_files(day: Day) -> list[Path]:
    """Return the files that grading needs: the day's tests, its known programs, and the test modules they import."""
    judged = [load_course().task(task.judges) for task in day.tasks if task.judges]
    files = [*tests_paths(day.tasks), *map(variants_path, [*day.tasks, *judged])]
    for file in files:  # what is found is looked through as well
        imported = SHARED.findall(file.read_text(encoding="utf-8")) if file.is_file() else []
        shared = [TESTS / folder / f"{module}.py" for folder, module in imported]
        files += [module for module in dict.fromkeys(shared) if module not in files]
    return files


def asks_pytorch(day: Day) -> bool:
    """Return whether a test of the day needs a recorded answer of PyTorch's."""
    there = filter(Path.is_file, tests_paths(day.tasks))
    return any(ASKS_PYTORCH.search(file.read_text(encoding="utf-8")) for file in there)


def module_path(package: Path, module: str) -> Path:
    """Return the file of a package's module: kernels/axpy.py for "kernels.axpy", an __init__.py for a folder."""
    folder = package.joinpath(*module.split("."))
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def module_of(package: Path, file: Path) -> str:
    """Return the dotted module that a file of a package holds; of a folder "kernels.__init__"."""
    return ".".join(file.relative_to(package).with_suffix("").parts)


def must_be_there(day: Day) -> None:
    """Raise UsageError if a file that grading needs is missing."""
    for file in day_files(day):
        if not file.is_file():
            raise UsageError(f"{name_of(file)} is missing. {_bring_back()}")


def no_check(task: Task) -> UsageError:
    """Return the error to raise if a task's test file has no check of it."""
    return UsageError(f"{name_of(tests_path(task))} has no check of {task.id}. {_bring_back()}")


def _bring_back() -> str:
    return f"Restore it: git checkout -- {shell_path(TESTS)}"
