"""`pdm run watch`: grade on save, and only the tasks whose code has changed."""

import click

from ...course.registry import load_course
from ...course.selection import selected
from ...grading.supervisor import Limits
from ...terminal.screen import say
from ..options import Finite, names_of_tasks


@click.command(short_help="Grade on every save what has changed.")
@names_of_tasks
@click.option("--poll", is_flag=True, help="Look at the files' times only, and do not ask the system for events.")
@click.option("--time-limit", type=Finite(min=0.1), help="Seconds a task may take; most have 20 by themselves.")
def watch(names: tuple[str, ...], week: int | None, day: int | None, poll: bool, time_limit: float | None) -> int:
    """Grade on every save a day (1.2, or --week 1 --day 2), a task or a week; by default the first unfinished day.

    Only what has changed is graded again. When the task that you see passes, the next one comes after a second: n goes
    there at once, p stays. After a day's last task, n goes to the next day. Keys: h hint, n next task, p the task
    before, l list, q quit, Enter runs all again.
    """
    from .session import Session
    from .work import unfinished_day

    if names or week is not None or day is not None:
        tasks = list(selected(names, week, day, "watch"))
    else:
        tasks = unfinished_day(load_course().tasks())
    if not tasks:
        first = load_course().weeks[0].days[0]
        say(
            "Every task that can be run here is done or borrowed. "
            f"To watch a day all the same: pdm run watch {first.week}.{first.number}"
        )
        return 0
    return Session(tasks, Limits(seconds=time_limit), poll).run()
