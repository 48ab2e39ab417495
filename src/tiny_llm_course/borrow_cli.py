"""`pdm run borrow 1.2` and `pdm run return 1.2`: later days run on the reference for that day, and back."""

from collections.abc import Sequence

import click

from . import progress
from .registry import Task, UsageError, load_course, resolve
from .screen import say


@click.command()
@click.argument("names", nargs=-1, metavar="[1.1.2 | 1.1]...")
def borrow(names: tuple[str, ...]) -> int:
    """Let later days run on the reference for a day (1.2) or a task (1.1.2); your files stay as they are."""
    chosen, before = _named(names), progress.borrowed()
    if not names:
        return _list()
    _remember(before | {task.id for task in chosen})
    for task in chosen:
        if task.id in before:
            say(f"⇢ {task.label}: was borrowed before")
        elif progress.status_of(task.id) == "passed":
            say(f"⇢ {task.label}: borrowed, though your own passes", colour="yellow")
        else:
            say(f"⇢ {task.label}: borrowed", colour="yellow")
    say()
    say("Your files stay as they are; whatever uses this runs on the reference.")
    say(f"To take it back: pdm run return {' '.join(names)} · the board: pdm run status")
    return 0


@click.command("return")
@click.argument("names", nargs=-1, metavar="[1.1.2 | 1.1]...")
@click.option("--all", "everything", is_flag=True, help="Return all that is borrowed.")
def give_back(names: tuple[str, ...], everything: bool) -> int:
    """End a loan: your own code counts again."""
    if names and everything:
        raise UsageError("Name tasks or days, or say --all, not both.")
    chosen, before = _named(names), progress.borrowed_tasks()
    if not names and not everything:
        return _list()
    returned = [task for task in before if everything or task in chosen]
    if not returned:
        if not before:
            raise UsageError("Nothing is borrowed, so there is nothing to return.")
        raise UsageError(f"{' '.join(names)} is not borrowed. Borrowed: {', '.join(task.id for task in before)}.")
    _remember({task.id for task in before if task not in returned})
    for task in returned:
        say(f"{task.label}: returned, your own code counts again")
    for name in names:
        if not any(task in returned for task in resolve(load_course(), name)):
            say(f"{name}: was not borrowed")
    say()
    say(f"Next: pdm run test {returned[0].id}")
    return 0


def _named(names: Sequence[str]) -> list[Task]:
    """The tasks in the order of the course, each once; a UsageError before anything is done."""
    chosen = {task.id for name in names for task in resolve(load_course(), name)}
    return [task for task in load_course().tasks() if task.id in chosen]


def _list() -> int:
    tasks = progress.borrowed_tasks()
    for task in tasks:
        say(f"⇢ {task.label}: borrowed", colour="yellow")
    if tasks:
        say(f"To take one back: pdm run return {tasks[0].id} · all of them: pdm run return --all")
    else:
        say("Nothing is borrowed. To let later days run on the reference for day 2: pdm run borrow 1.2")
    return 0


def _remember(ids: set[str] | frozenset[str]) -> None:
    if not progress.remember_borrowed(ids):
        raise UsageError(
            "What is borrowed is kept in .tiny-llm/progress.json, which cannot be written: nothing is changed."
        )
