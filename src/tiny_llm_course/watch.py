"""`pdm run watch`: grade on save, and only the tasks whose code has changed."""

from collections.abc import Iterable

import click

from .child_process import Limits
from .options import Finite, names_of_tasks
from .registry import Task, load_course
from .screen import say
from .selection import by_day, selected


@click.command(short_help="Grade on every save what has changed.")
@names_of_tasks
@click.option("--poll", is_flag=True, help="Look at the files' times only, and do not ask the system for events.")
@click.option("--time-limit", type=Finite(min=0.1), default=Limits.seconds, help="Seconds a task may take.")
def watch(names: tuple[str, ...], week: int | None, day: int | None, poll: bool, time_limit: float) -> int:
    """Grade on every save a day (1.2, or --week 1 --day 2), a task or a week; by default the first unfinished day.

    Only what has changed is graded again. Keys: h hint, n next task, l list, q quit, Enter runs all again.
    """
    from .watch_session import Session

    if names or week is not None or day is not None:
        tasks = list(selected(names, week, day, "watch"))
    else:
        tasks = unfinished_day(load_course().tasks())
    if not tasks:
        first = load_course().weeks[0].days[0]
        say(f"Every task is done or borrowed. To watch a day all the same: pdm run watch {first.week}.{first.number}")
        return 0
    return Session(tasks, Limits(seconds=time_limit), poll).run()


def unfinished_day(tasks: Iterable[Task]) -> list[Task]:
    """All tasks of the first day of which one of these is unfinished; none if all are done."""
    for day, its_tasks in by_day(list(tasks)):
        if not all(done(task) for task in its_tasks):
            return list(day.tasks)
    return []


def done(task: Task) -> bool:
    """Whether a task has passed as it is now, or is borrowed."""
    from . import progress

    return progress.status_of(task.id) == "passed" or task.id in progress.borrowed()
