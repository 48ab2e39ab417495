"""What to grade: from what was typed to tasks, and from tasks to pytest."""

import subprocess
import sys
from collections.abc import Sequence

from .day_files import tests_path
from .paths import ROOT
from .registry import Day, Task, UsageError, load_course, resolve


def selected(
    names: Sequence[str], week: int | None, day: int | None, solution: bool, command: str = "test"
) -> Sequence[Task]:
    """The tasks that these arguments of `test` (or `watch`) stand for, all of the course's by default.

    Raises:
        UsageError: they name nothing, too much, or a week of the learner's: that would not fit a screen.
    """
    course = load_course()
    if names and (week is not None or day is not None):
        raise UsageError("Name a task or a day either as 1.1.2 or with --week and --day, not both.")
    if names:
        chosen = [task for name in names for task in resolve(course, name)]
        return list(dict.fromkeys(chosen))
    if week is None and day is not None:
        raise UsageError(f"--day {day} needs a week: pdm run {command} --week 1 --day {day}")
    if week is not None and day is None:
        days = course.week(week).days
        if solution:
            return [task for d in days for task in d.tasks]
        numbers = ", ".join(str(d.number) for d in days)
        raise UsageError(
            f"--week {week} needs a day (of {numbers}): pdm run {command} --week {week} --day {days[0].number}"
        )
    if week is not None and day is not None:
        return course.day(week, day).tasks
    return course.tasks()


def by_day(tasks: Sequence[Task]) -> list[tuple[Day, list[Task]]]:
    """Tasks with their days, in the order of the course."""
    grouped: dict[tuple[int, int], list[Task]] = {}
    for task in tasks:
        grouped.setdefault((task.week, task.day), []).append(task)
    return [(load_course().day(*key), grouped[key]) for key in sorted(grouped)]


def run_pytest(tasks: Sequence[Task], options: Sequence[str]) -> int:
    """Raw pytest on some tasks, in this terminal. Our exit codes: 0 passed, 1 failed, 2 wrong use."""
    files = [str(tests_path(day)) for day, _ in by_day(tasks)]
    command = [sys.executable, "-m", "pytest", *files, *(f"--task={task.id}" for task in tasks), *options]
    status = subprocess.run(command, cwd=ROOT).returncode
    return status if status in (0, 1) else 1 if status < 0 else 2
