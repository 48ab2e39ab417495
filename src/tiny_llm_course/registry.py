"""The course's weeks, days and tasks, as `tasks.toml` lists them, and the ways to ask for one."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .naming import meant
from .paths import REGISTRY
from .registry_check import check_registry


class UsageError(Exception):
    """Someone asked for what does not exist or cannot be done: what is wrong, what there is, and what to type."""

    def __init__(self, what: str, *more: str) -> None:
        super().__init__(with_commands(what, *more))


def with_commands(what: str, *more: str) -> str:
    """A line on what is wrong, and commands to type, each on a line of its own.

    Of `more`, a line that ends with a colon introduces the commands below it.
    """
    return "\n".join([what, *(line if line.endswith(":") else f"    {line}" for line in more)])


@dataclass(frozen=True)
class Target:
    """A function, method or class that the learner writes, e.g. `attention:SimpleMultiHeadAttention.__call__`."""

    module: str  # inside the package, dotted: "attention" is tiny_llm/attention.py
    name: str  # inside the module, dotted for a method

    @classmethod
    def parse(cls, text: str) -> "Target":
        """Read "module:name"."""
        module, _, name = text.partition(":")
        return cls(module, name)

    def __str__(self) -> str:
        """The text that `parse` reads."""
        return f"{self.module}:{self.name}"


@dataclass(frozen=True)
class Task:
    """One thing to write: the smallest unit that is graded, hinted at and shown on the board."""

    id: str  # week.day.number
    title: str
    targets: tuple[Target, ...]
    tests: str  # the graded tests are those whose name begins with test_, this and _
    needs: tuple[str, ...]  # ids of the earlier tasks whose code this one calls
    minutes: int
    difficulty: int
    forbidden: tuple[str, ...]  # dotted names that would do the work for the learner
    hints: tuple[str, ...]  # from a question to almost the answer
    week: int
    day: int

    @property
    def label(self) -> str:
        """The id and the title: what a stub raises, and how the harness recognises it."""
        return f"{self.id} {self.title}"


@dataclass(frozen=True)
class Day:
    """One chapter and its tasks."""

    week: int
    number: int
    title: str
    chapter: str  # the chapter's file below book/src
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Week:
    """A number of days towards one aim."""

    number: int
    title: str
    days: tuple[Day, ...]


@dataclass(frozen=True)
class Course:
    """All weeks. Every lookup that finds nothing raises a UsageError that says what there is."""

    weeks: tuple[Week, ...]

    def week(self, number: int) -> Week:
        """The week of this number."""
        for week in self.weeks:
            if week.number == number:
                return week
        raise UsageError(f"There is no week {number}; {_there('week', [week.number for week in self.weeks])}.")

    def day(self, week: int, number: int) -> Day:
        """The day of this number within the week."""
        days = self.week(week).days
        for day in days:
            if day.number == number:
                return day
        there = _there("day", [day.number for day in days])
        raise UsageError(f"There is no day {number} in week {week}; {there}.")

    def task(self, task_id: str) -> Task:
        """The task with an id like 1.1.2."""
        numbers = _numbers(task_id)
        if len(numbers) != 3:
            raise _not_a_task(self, task_id)
        week, day, _ = numbers
        tasks = self.day(week, day).tasks
        for task in tasks:
            if _numbers(task.id) == numbers:
                return task
        there = ", ".join(task.id for task in tasks) or "none"
        raise UsageError(f"There is no task {task_id}. Day {day} of week {week} has {there}.")

    def needs(self, task_id: str) -> tuple[str, ...]:
        """All tasks that a task uses, also by way of others, in the order of the course."""
        found: set[str] = set()
        waiting = [task_id]
        while waiting:
            for need in self.task(waiting.pop()).needs:
                if need not in found:
                    found.add(need)
                    waiting.append(need)
        return tuple(task.id for task in self.tasks() if task.id in found)

    def tasks(self) -> tuple[Task, ...]:
        """Every task, in the order of the course."""
        return tuple(task for week in self.weeks for day in week.days for task in day.tasks)


def resolve(course: Course, selector: str) -> list[Task]:
    """The tasks that "1.1.2" (itself), "1.1" (its day's) or "1" (its week's) stands for; else a UsageError."""
    match _numbers(selector):
        case [week]:
            return [task for day in course.week(week).days for task in day.tasks]
        case [week, day]:
            return list(course.day(week, day).tasks)
        case [_, _, _]:
            return [course.task(selector)]
    raise _not_a_task(course, selector)


def load_course(path: Path | None = None) -> Course:
    """The course as the registry at `path` describes it; without a path this checkout's, which is read only once.

    Raises:
        ValueError: the registry is malformed; the message names the task and the key.
    """
    return _load_default() if path is None else _load(path)


@cache
def _load_default() -> Course:
    return _load(REGISTRY)


def _load(path: Path) -> Course:
    try:
        registry = tomllib.loads(path.read_text(encoding="utf-8"))
        check_registry(registry)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from error
    return Course(tuple(_week(week) for week in registry["weeks"]))


def _week(table: dict[str, Any]) -> Week:
    number = table["number"]
    return Week(number, table["title"], tuple(_day(day, number) for day in table["days"]))


def _day(table: dict[str, Any], week: int) -> Day:
    tasks = tuple(_task(task, week, table["number"]) for task in table["tasks"])
    return Day(week, table["number"], table["title"], table["chapter"], tasks)


def _task(table: dict[str, Any], week: int, day: int) -> Task:
    return Task(
        id=table["id"],
        title=table["title"],
        targets=tuple(Target.parse(target) for target in table["targets"]),
        tests=table["tests"],
        needs=tuple(table["needs"]),
        minutes=table["minutes"],
        difficulty=table["difficulty"],
        forbidden=tuple(table["forbidden"]),
        hints=tuple(table["hints"]),
        week=week,
        day=day,
    )


def _numbers(selector: str) -> list[int]:
    """The numbers of "1.1.2"; none if it is something else."""
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){0,2}", selector):
        return []
    return [int(part) for part in selector.split(".")]


def _not_a_task(course: Course, selector: str) -> UsageError:
    names = "A task is named like 1.1.2, a day like 1.1, a week like 1."
    guess = meant(course, selector)
    return UsageError(f"{selector!r} is not a task. {names}" + f" Did you mean {guess}?" * bool(guess))


def _there(what: str, numbers: Sequence[int]) -> str:
    """ "there is week 1", "there are days 1 to 7"."""
    if len(numbers) < 2:
        return f"there is {what} {numbers[0]}" if numbers else f"there is no {what} yet"
    first, last = numbers[0], numbers[-1]
    in_a_row = list(numbers) == list(range(first, last + 1)) and len(numbers) > 2
    listed = f"{', '.join(map(str, numbers[:-1]))} and {last}"
    return f"there are {what}s " + (f"{first} to {last}" if in_a_row else listed)
