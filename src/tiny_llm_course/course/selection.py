"""What to grade: from what was typed to tasks, and from tasks to pytest."""

from collections.abc import Callable, Sequence

from .guesses import is_in_words
from .nouns import Day, Task
from .registry import UsageError, load_course, resolve


def selected(names: Sequence[str], week: int | None, day: int | None, command: str = "test") -> Sequence[Task]:
    """The tasks that these arguments of a command stand for, in the order typed; all of the course's by default.

    Raises:
        UsageError: they name nothing, or too much.
    """
    course = load_course()
    if names and (week is not None or day is not None):
        raise UsageError("Name a task or a day either as 1.1.2 or with --week and --day, not both.")
    if names:
        return _named(names)
    if week is None and day is not None:
        number = course.weeks[0].number
        raise UsageError(f"--day {day} needs a week:", f"pdm run {command} --week {number} --day {day}")
    if week is not None and day is not None:
        return course.day(week, day).tasks
    if week is not None:
        return resolve(course, str(course.week(week).number))
    return course.tasks()


def spelled(names: Sequence[str], week: int | None, day: int | None) -> str:
    """The same tasks as names on a command line: "1.1" for --week 1 --day 1."""
    return " ".join(dict.fromkeys(names)) or ".".join(str(number) for number in (week, day) if number is not None)


def one_task(names: Sequence[str], command: str, fits: Callable[[Task], bool]) -> Task:
    """The task that a command of one task was given; `fits` says which to propose where it was given another thing.

    Raises:
        UsageError: it was given no task, several, or a day.
    """
    if names:
        tasks = _named(names)
        if len(tasks) == 1:
            return tasks[0]
    else:
        tasks = list(load_course().tasks())
    proposed = next((task for task in tasks if fits(task)), tasks[0])
    again = f"pdm run {command} {proposed.id}"
    if not names:
        raise UsageError(f"{command} takes a task. You may mean {proposed.label}:", again)
    if len(names) > 1:
        raise UsageError(f"{command} takes one task at a time:", again)
    if names[0].count(".") == 0:
        raise UsageError(f"{names[0]} is a week, and {command} takes one task:", again)
    listed = ", ".join(task.label for task in tasks)
    raise UsageError(f"{names[0]} is a day, and {command} takes one task of it: {listed}.", again)


def _named(names: Sequence[str]) -> list[Task]:
    course = load_course()
    if is_in_words(names):  # no name, but perhaps a guess
        return resolve(course, " ".join(names))
    return list(dict.fromkeys(task for name in names for task in resolve(course, name)))


def by_day(tasks: Sequence[Task]) -> list[tuple[Day, list[Task]]]:
    """Tasks with their days, in the order of the course."""
    grouped: dict[tuple[int, int], list[Task]] = {}
    for task in tasks:
        grouped.setdefault((task.week, task.day), []).append(task)
    return [(load_course().day_of(grouped[key][0]), grouped[key]) for key in sorted(grouped)]


def in_brief(tasks: Sequence[Task]) -> str:
    """The names that stand for just these tasks, in the order of the course: a week, a day or a task, as `1, 2.1`."""
    chosen, names = set(tasks), []
    for week in load_course().weeks:
        days = {day.name: set(day.tasks) for day in week.days}
        if set().union(*days.values()) <= chosen:
            names.append(str(week.number))
            continue
        for name, own in days.items():
            names += [name] if own <= chosen else sorted(task.id for task in own & chosen)
    return ", ".join(names)
