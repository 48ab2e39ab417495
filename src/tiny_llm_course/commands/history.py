"""`pdm run hint 1.1.2`, the next of three hints; `pdm run history 1.1.2`, the attempts at a task."""

import click

from ..course.entities import Task
from ..course.registry import load_course
from ..course.selection import one_task
from ..grading.report import MARKS
from ..learner import attempts, hints, progress
from ..learner.attempts import Attempt
from ..terminal.screen import DIFFERENCE, say

SCREEN = 16  # lines of a diff, so that an attempt fits on a screen


@click.command()
@click.argument("names", nargs=-1, metavar="1.1.2")
def hint(names: tuple[str, ...]) -> int:
    """Show the next of a task's three hints."""
    task = one_task(names, "hint", lambda task: not progress.settled(task))
    rung = hints.next_rung(task)
    if progress.status_of(task.id) == "failed" and (known := attempts.of_task(task)):
        said = "; ".join(filter(None, [known[-1].headline, *(mistake.fact for mistake in known[-1].mistakes)]))
        say(f"Your last attempt: {said.removesuffix('?')}{'?' if said.endswith('?') else '.'}")
    hints.show(task, rung)
    return 0


@click.command()
@click.argument("names", nargs=-1, metavar="[1.1.2]")
@click.option("--full", is_flag=True, help="Show each diff in full.")
def history(names: tuple[str, ...], full: bool) -> int:
    """Show each graded attempt at a task: when, the verdict, the named mistake, and what you changed.

    Without a task, list the tasks with attempts. The last 50 attempts of a task are kept in .tiny-llm, and leave this
    machine only through: pdm run export --format json --history
    """
    if not names:
        _list()
        return 0
    task = one_task(names, "history", lambda task: bool(attempts.of_task(task)))
    known = attempts.of_task(task)
    if not known:
        say(f"No attempt at {task.label} is recorded. To make one: pdm run test {task.id}")
        return 0
    say(f"{task.label}: {_counted(known)}", bold=True)
    for number, attempt in enumerate(known):
        _show(task, number + 1, known[number - 1] if number else None, attempt, full)
    return 0


def _list() -> None:
    tried = attempts.tasks_tried()
    if not tried:
        say(f"No attempt is recorded. To make one: pdm run test {load_course().tasks()[0].id}")
        return
    for task, known in tried.items():
        mark, color = MARKS[known[-1].status]
        say(f"{mark} {task.label}: {_counted(known)}, {known[-1].status} {known[-1].local_time}", color=color)
    say(f"To see one: pdm run history {next(reversed(tried)).id}")


def _counted(known: list[Attempt]) -> str:
    return f"{'the last ' * (len(known) == attempts.KEPT)}{len(known)} attempt{'s' * (len(known) > 1)}"


def _show(task: Task, number: int, before: Attempt | None, attempt: Attempt, full: bool) -> None:
    mark, color = MARKS[attempt.status]
    headline = f", {attempt.headline}" * bool(attempt.headline)
    say(f"\n{mark} {number}, {attempt.local_time}: {attempt.status}{headline}", color=color, bold=True)
    for mistake in attempt.mistakes:
        say(f"    named: {mistake.fact} ({mistake.name})")
    lines = attempts.difference(before, attempt)
    if not lines:
        say("    The function and its private helpers are unchanged; code that they use has changed.")
    shown = lines if full else lines[:SCREEN]
    for line in shown:
        say(f"    {line}", color=DIFFERENCE.get(line[:1]), cut=not full)
    if len(lines) > len(shown):
        say(f"    ... {len(lines) - len(shown)} more lines: pdm run history {task.id} --full")
