"""`pdm run watch`: on every save, grade the tasks whose code has changed."""

import click

from ...course.registry import load_course
from ...grading.supervisor import Limits
from ...terminal.screen import say
from ..options import Finite, named_tasks, names_of_tasks


@click.command()
@names_of_tasks
@click.option("--poll", is_flag=True, help="Poll file times instead of using system events.")
@click.option("--time-limit", type=Finite(min=0.1), help="Seconds per task (default: mostly 20).")
def watch(names: tuple[str, ...], week: int | None, day: int | None, poll: bool, time_limit: float | None) -> int:
    """On every save, grade a day (1.2, or --week 1 --day 2), a task or a week; by default the first unfinished day.

    Only tasks whose code has changed are graded again. When the task on screen passes, the next one follows after a
    second: n goes there at once, p stays. After a day's last task, n goes to the next day. Keys: h hint, n next task, p
    previous task, l list, q quit, Enter grades all again.
    """
    from .session import Session
    from .work import unfinished_day

    tasks = named_tasks(names, week, day, "watch") or unfinished_day(load_course().tasks())
    if not tasks:
        first = load_course().weeks[0].days[0].name
        say(f"Every task that can run here is done or borrowed. To watch a day anyway: pdm run watch {first}")
        return 0
    return Session(tasks, Limits(seconds=time_limit), poll).run()
