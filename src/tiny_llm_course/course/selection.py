"""What to grade: from command-line arguments to tasks and back."""

from collections.abc import Callable, Sequence

from .entities import Day, Task
from .registry import UsageError, load_course, resolve
from .suggestions import is_in_words


def selected(names: Sequence[str], week: int | None, day: int | None, command: str = "test") -> Sequence[Task]:
    """Return the tasks that a command's arguments name, by default all; raise UsageError for none or too much."""
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
    """Return the same tasks as names on a command line: "1.1" for --week 1 --day 1."""
    return " ".join(dict.fromkeys(names)) or ".".join(str(number) for number in (week, day) if number is not None)


def one_task(names: Sequence[str], command: str, fits: Callable[[Task], bool]) -> Task:
    """Return the one task that a command was given; else raise UsageError and propose the first that `fits`."""
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
    """Group tasks by day, in the order of the course."""
    grouped: dict[tuple[int, int], list[Task]] = {}
    for task in tasks:
        grouped.setdefault((task.week, task.day), []).append(task)
    return [(load_course().day_of(grouped[key][0]), grouped[key]) for key in sorted(grouped)]


def in_brief(tasks: Sequence[Task]) -> str:
    """Return the shortest names for exactly these tasks, in the order of the course, such as `1, 2.1`."""
    chosen, names = set(tasks), []
    for week in load_course().weeks:
        days = {day.name: set(day.tasks) for day in week.days}
        if set().union(*days.values()) <= chosen:
            names.append(str(week.number))
            continue
        for name, own in days.items():
            names += [name] if own <= chosen else sorted(task.id for task in own & chosen)
    return ", ".join(names)
