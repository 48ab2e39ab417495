"""`pdm run borrow 1.2` and `pdm run return 1.2`: later days run on the reference for that day, and back."""

from collections.abc import Sequence

import click

from ..course.nouns import Task
from ..course.registry import UsageError, load_course, resolve
from ..course.selection import selected, spelled
from ..learner import progress
from ..terminal.screen import say
from .options import names_of_tasks


@click.command(short_help="Go on with our code in place of a task or a day.")
@names_of_tasks
def borrow(names: tuple[str, ...], week: int | None, day: int | None) -> int:
    """Let later days run on the reference for a day (1.2) or a task (1.1.2); your files stay as they are.

    Without a name, list what is borrowed.
    """
    chosen, before = _named(names, week, day, "borrow"), progress.borrowed()
    if not chosen:
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
    say(f"To take it back: pdm run return {spelled(names, week, day)} · the board: pdm run status")
    return 0


@click.command("return", short_help="Take back what is borrowed.")
@names_of_tasks
@click.option("--all", "everything", is_flag=True, help="Return all that is borrowed.")
def give_back(names: tuple[str, ...], week: int | None, day: int | None, everything: bool) -> int:
    """End a loan: your own code counts again. Without a name, list what is borrowed."""
    chosen, before = _named(names, week, day, "return"), progress.borrowed_tasks()
    if chosen and everything:
        raise UsageError("Name tasks or days, or say --all, not both.")
    if not before or not (chosen or everything):
        return _list()
    returned = [task for task in before if everything or task in chosen]
    if not returned:
        listed = ", ".join(task.id for task in before)
        asked = spelled(names, week, day)
        raise UsageError(f"{asked} is not borrowed. Borrowed: {listed}.", f"pdm run return {before[0].id}")
    _remember({task.id for task in before if task not in returned})
    for task in returned:
        say(f"{task.label}: returned, your own code counts again")
    for name in names:
        if not any(task in returned for task in resolve(load_course(), name)):
            say(f"{name}: was not borrowed")
    say()
    say(f"Next: pdm run test {returned[0].id}")
    return 0


def _named(names: Sequence[str], week: int | None, day: int | None, command: str) -> list[Task]:
    """The tasks in the order of the course, each once; a UsageError before anything is done."""
    if not names and week is None and day is None:
        return []
    chosen = selected(names, week, day, command)
    return [task for task in load_course().tasks() if task in chosen]


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
            "What is borrowed is kept in .tiny-llm/progress.json, which cannot be written. Nothing is changed.",
            "pdm run doctor",
        )
