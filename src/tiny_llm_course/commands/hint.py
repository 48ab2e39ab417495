"""`pdm run hint 1.1.2`: the next of a task's three hints, never unasked."""

import click

from ..course.selection import one_task
from ..learner import hints, progress


@click.command(short_help="Show the next of a task's three hints.")
@click.argument("names", nargs=-1, metavar="1.1.2")
def hint(names: tuple[str, ...]) -> int:
    """Show the next of a task's three hints."""
    task = one_task(names, "hint", lambda task: not progress.settled(task))
    hints.show(task, hints.next_rung(task))
    return 0
