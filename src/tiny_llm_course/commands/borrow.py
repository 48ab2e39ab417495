"""`pdm run borrow 1.2` and `pdm run return 1.2`: run later days on the reference, and stop doing so."""

import click

from ..course.registry import UsageError, load_course, resolve
from ..course.selection import spelled
from ..learner import progress
from ..terminal.screen import say
from .options import named_tasks, names_of_tasks


@click.command()
@names_of_tasks
def borrow(names: tuple[str, ...], week: int | None, day: int | None) -> int:
    """Run later days on our code for a day (1.2) or a task (1.1.2). Without a name, list what is borrowed."""
    chosen, before = named_tasks(names, week, day, "borrow"), progress.borrowed()
    if not chosen:
        return _list()
    _remember(before | {task.id for task in chosen})
    for task in chosen:
        if task.id in before:
            say(f"⇢ {task.label}: already borrowed")
        elif progress.status_of(task.id) == "passed":
            say(f"⇢ {task.label}: borrowed, although yours passes", color="yellow")
        else:
            say(f"⇢ {task.label}: borrowed", color="yellow")
    say("\nYour files do not change; code that uses this runs on the reference.")
    say(f"To use your own again: pdm run return {spelled(names, week, day)} · the board: pdm run status")
    return 0


@click.command("return")
@names_of_tasks
@click.option("--all", "everything", is_flag=True, help="Return everything that is borrowed.")
def give_back(names: tuple[str, ...], week: int | None, day: int | None, everything: bool) -> int:
    """Stop borrowing: your own code counts again. Without a name, list what is borrowed."""
    chosen, before = named_tasks(names, week, day, "return"), progress.borrowed_tasks()
    if chosen and everything:
        raise UsageError("Name tasks or days, or use --all, not both.")
    if not before or not (chosen or everything):
        return _list()
    returned = [task for task in before if everything or task in chosen]
    if not returned:
        listed = ", ".join(task.id for task in before)
        asked = spelled(names, week, day)
        raise UsageError(f"{asked} is not borrowed. Borrowed: {listed}.", f"pdm run return {before[0].id}")
    _remember({task.id for task in before if task not in returned})
    for task in returned:
        say(f"{task.label}: returned; your own code counts again")
    for name in names:
        if not any(task in returned for task in resolve(load_course(), name)):
            say(f"{name}: was not borrowed")
    say(f"\nNext: pdm run test {returned[0].id}")
    return 0


def _list() -> int:
    tasks = progress.borrowed_tasks()
    for task in tasks:
        say(f"⇢ {task.label}: borrowed", color="yellow")
    how = f"To return one: pdm run return {tasks[0].id} · all of them: pdm run return --all" if tasks else ""
    say(how or "Nothing is borrowed. To run later days on our code for day 2: pdm run borrow 1.2")
    return 0


def _remember(ids: set[str] | frozenset[str]) -> None:
    if not progress.remember_borrowed(ids):
        what = ".tiny-llm/progress.json, which records what is borrowed, cannot be written. Nothing has changed."
        raise UsageError(what, "pdm run doctor")
