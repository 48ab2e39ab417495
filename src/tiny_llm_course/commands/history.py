"""`pdm run hint 1.1.2`, the next of three hints, never unasked; `pdm run history 1.1.2`, the attempts at a task."""

import click

from ..course.nouns import Task
from ..course.registry import load_course
from ..course.selection import one_task
from ..grading.report import MARKS
from ..learner import attempts, hints, progress
from ..learner.attempts import Attempt
from ..terminal.screen import DIFFERENCE, say

SCREEN = 16  # lines of a difference, so that an attempt takes a screen at most


@click.command(short_help="Show the next of a task's three hints.")
@click.argument("names", nargs=-1, metavar="1.1.2")
def hint(names: tuple[str, ...]) -> int:
    """Show the next of a task's three hints."""
    task = one_task(names, "hint", lambda task: not progress.settled(task))
    hints.show(task, hints.next_rung(task))
    return 0


@click.command(short_help="Show your attempts at a task, and what you changed.")
@click.argument("names", nargs=-1, metavar="[1.1.2]")
@click.option("--full", is_flag=True, help="Show each difference whole.")
def history(names: tuple[str, ...], full: bool) -> int:
    """Show each graded attempt at a task: when, the verdict, the mistake that was named, what you changed.

    Without a task, list the tasks with attempts. All this is kept in .tiny-llm, the last 50 attempts of a task, and
    leaves this machine only by: pdm run export --format json --history
    """
    if not names:
        _list()
        return 0
    task = one_task(names, "history", lambda task: bool(attempts.of_task(task)))
    known = attempts.of_task(task)
    if not known:
        say(f"No attempt at {task.label} is remembered. To make one: pdm run test {task.id}")
        return 0
    say(f"{task.label}: {_counted(known)}", bold=True)
    for number, attempt in enumerate(known):
        _show(task, number + 1, known[number - 1] if number else None, attempt, full)
    return 0


def _list() -> None:
    tried = attempts.tasks_tried()
    if not tried:
        say(f"No attempt is remembered. To make one: pdm run test {load_course().tasks()[0].id}")
        return
    for task, known in tried.items():
        mark, colour = MARKS[known[-1].status]
        say(f"{mark} {task.label}: {_counted(known)}, {known[-1].status} {known[-1].local_time}", colour=colour)
    say(f"To look at one: pdm run history {next(reversed(tried)).id}")


def _counted(known: list[Attempt]) -> str:
    return f"{'the last ' * (len(known) == attempts.KEPT)}{len(known)} attempt{'s' * (len(known) > 1)}"


def _show(task: Task, number: int, before: Attempt | None, attempt: Attempt, full: bool) -> None:
    mark, colour = MARKS[attempt.status]
    say()
    said = f"{mark} {number}, {attempt.local_time}: {attempt.status}"
    say(f"{said}, {attempt.headline}" if attempt.headline else said, colour=colour, bold=True)
    for mistake in attempt.mistakes:
        say(f"    named: {mistake.fact} ({mistake.name})")
    lines = attempts.difference(before, attempt)
    if not lines:
        say("    The function and its private helpers were not changed, but what they use.")
    shown = lines if full else lines[:SCREEN]
    for line in shown:
        say(f"    {line}", colour=DIFFERENCE.get(line[:1]), cut=not full)
    if len(lines) > len(shown):
        say(f"    ... {len(lines) - len(shown)} lines more: pdm run history {task.id} --full")
