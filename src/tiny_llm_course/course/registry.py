"""The course as the files of `tasks/`, one a week, list it, and lookups in it."""

import dataclasses
import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from ..paths import REGISTRY
from .entities import Box, Day, Mode, Stage, Target, Task, Week
from .registry_check import OPEN, check_registry
from .suggestions import meant


class UsageError(Exception):
    """The user asked for something that does not exist or cannot be done; the message says what to type instead."""

    def __init__(self, what: str, *more: str) -> None:
        super().__init__(with_commands(what, *more))


class LearnerError(Exception):
    """The learner's engine is not finished or failed; the message is what to print."""


def with_commands(what: str, *more: str) -> str:
    """Join a message and commands, indented; a line of `more` that ends with a colon introduces the next ones."""
    return "\n".join([what, *(line if line.endswith(":") else f"    {line}" for line in more)])


@dataclasses.dataclass(frozen=True)
class Course:
    """All weeks. A lookup that finds nothing raises a UsageError that says what exists."""

    weeks: tuple[Week, ...]

    def week(self, number: int) -> Week:
        """Return the week of this number."""
        for week in self.weeks:
            if week.number == number:
                return week
        raise UsageError(f"There is no week {number}; {_there('week', [week.number for week in self.weeks])}.")

    def day(self, week: int, number: int) -> Day:
        """Return the day of this number in the week; the open task has none."""
        days = [day for day in self.week(week).days if not day.is_open]
        for day in days:
            if day.number == number:
                return day
        there = _there("day", [day.number for day in days])
        raise UsageError(f"There is no day {number} in week {week}; {there}.")

    def day_of(self, task: Task) -> Day:
        """Return the day of a task."""
        return next(day for day in self.week(task.week).days if day.number == task.day)

    def open_task(self, week: int) -> Task:
        """Return the open task of a week."""
        for task in (task for day in self.week(week).days for task in day.tasks):
            if task.judges:
                return task
        raise UsageError(f"Week {week} has no open task.")

    def task(self, task_id: str) -> Task:
        """Return the task with an id like 1.1.2 or 1.C."""
        if week := _week_of_open(task_id):
            return self.open_task(week)
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
        """Return the ids of all tasks that a task uses, directly or not, in the order of the course."""
        found = set(self.task(task_id).needs)
        for task in reversed(self.tasks()):  # a task comes after those that it needs
            found |= set(task.needs) if task.id in found else set()
        return tuple(task.id for task in self.tasks() if task.id in found)

    def days(self) -> tuple[Day, ...]:
        """Return every day, in order."""
        return tuple(day for week in self.weeks for day in week.days)

    def stages(self) -> tuple[Stage, ...]:
        """Return every stage of the engine, slowest first."""
        return tuple(stage for week in self.weeks for stage in week.stages)

    def modes(self) -> tuple[Mode, ...]:
        """Return every serving mode, simplest first."""
        return tuple(mode for week in self.weeks for mode in week.modes)

    def engines(self) -> tuple[Stage, ...]:
        """Return every engine for checkpoints that no stage supports."""
        return tuple(engine for week in self.weeks for engine in week.engines)

    def tasks(self) -> tuple[Task, ...]:
        """Return every task, in order."""
        return tuple(task for day in self.days() for task in day.tasks)


def resolve(course: Course, selector: str) -> list[Task]:
    """Return the tasks that "1.1.2", "1.C", "1.1" (a day) or "1" (a week) stands for; else raise UsageError."""
    if week := _week_of_open(selector):
        return [course.open_task(week)]
    match _numbers(selector):
        case [week]:
            return [task for day in course.week(week).days for task in day.tasks]
        case [week, day]:
            return list(course.day(week, day).tasks)
        case [_, _, _]:
            return [course.task(selector)]
    raise _not_a_task(course, selector)


def load_course(folder: Path | None = None) -> Course:
    """Load the course from a registry folder, by default this checkout's, once. Raise ValueError if it is malformed."""
    return _load_default() if folder is None else _load(folder)


@cache
def _load_default() -> Course:
    return _load(REGISTRY)


def _load(folder: Path) -> Course:
    weeks = []
    for file in sorted(folder.glob("week*.toml")):
        try:
            weeks.append(tomllib.loads(file.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"{file.name}: {error}") from error
    if not weeks:
        raise ValueError(f"no week1.toml is in {folder}")
    check_registry(weeks)
    return Course(tuple(_week(week) for week in weeks))


TARGETS = ("target", "model", "generate", "config", "counts", "make")  # keys whose values are parsed


def _week(table: dict[str, Any]) -> Week:
    number = table["number"]
    stages, engines = (tuple(_made(Stage, each) for each in table.get(key, [])) for key in ("stages", "engines"))
    days = [_day(day, number) for day in table["days"]]
    if "open" in table:
        days.append(_open_task(table["open"], number, max((day.number for day in days), default=0) + 1))
    modes = tuple(_made(Mode, each) for each in table.get("modes", []))
    runs = {key: table.get(key, "") for key in ("build", "calls", "launches")}
    return Week(number, table["title"], tuple(days), stages, modes, engines, **runs)


def _made(kind: type[Any], table: dict[str, Any], **more: Any) -> Any:
    """Build a Stage, Mode or Task from a table, with tuples for lists and Targets for references into a package."""
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    values |= {key: Target.parse(table[key]) for key in TARGETS if key in table}
    return kind(**values, **more)


def _day(table: dict[str, Any], week: int) -> Day:
    tasks = tuple(_task(task, week, table["number"]) for task in table["tasks"])
    return Day(week, table["number"], table["title"], table["chapter"], tasks)


def _open_task(table: dict[str, Any], week: int, place: int) -> Day:
    """Build a day of one task, graded by `checks`, which may use the task whose programs it judges."""
    of = table["of"]
    whole = table | {"id": f"{week}.{OPEN}", "tests": "checks", "needs": [of], "forbidden": []}
    task = dataclasses.replace(_task(whole, week, place), judges=of)
    return Day(week, place, table["title"], table["chapter"], (task,))


def _task(table: dict[str, Any], week: int, day: int) -> Task:
    runner = Target.parse(table["program"]) if "program" in table else None
    makes = tuple(map(Box.parse, table.get("makes", ())))
    own = {key: value for key, value in table.items() if key not in ("program", "makes", "of", "chapter")}
    task: Task = _made(Task, own, week=week, day=day, runner=runner, makes=makes)
    return task


def _numbers(selector: str) -> list[int]:
    """Parse "1.1.2" into numbers; none if it is something else."""
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,4}){0,2}", selector):
        return []
    return [int(part) for part in selector.split(".")]


def _week_of_open(selector: str) -> int:
    """Return the week of "1.C", also "1.c"; 0 if it is something else."""
    found = re.fullmatch(rf"([0-9]{{1,4}})\.{OPEN}", selector.upper())
    return int(found[1]) if found else 0


def _not_a_task(course: Course, selector: str) -> UsageError:
    names = "A task is named like 1.1.2, a day like 1.1, a week like 1."
    guess = meant(selector, [(task.id, task.target.file, task.target.name, task.title) for task in course.tasks()])
    return UsageError(f"{selector!r} is not a task. {names}" + f" Did you mean {guess}?" * bool(guess))


def _there(what: str, numbers: Sequence[int]) -> str:
    """Return "there is week 1" or "there are days 1 to 7"."""
    if len(numbers) < 2:
        return f"there is {what} {numbers[0]}" if numbers else f"there is no {what} yet"
    first, last = numbers[0], numbers[-1]
    in_a_row = list(numbers) == list(range(first, last + 1)) and len(numbers) > 2
    listed = f"{', '.join(map(str, numbers[:-1]))} and {last}"
    return f"there are {what}s " + (f"{first} to {last}" if in_a_row else listed)
