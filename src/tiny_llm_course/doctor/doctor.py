"""`pdm run doctor`: a check of the machine and checkout. Standard library only: packages may be missing or broken."""

from collections.abc import Callable

from ..terminal.screen import say
from . import Check, Line, checkout, machine
from .shadowing import shadowing

WIDTH = 10  # of the names on the left


def examine(next_command: Callable[[], str] = lambda: "pdm run test --week 1 --day 1") -> int:
    """Print every check, and what to do next; return 1 if a problem blocks the course."""
    problems: list[Line] = []
    for check in (shadowing, *machine.CHECKS, *checkout.CHECKS):
        for line in _lines_of(check):
            mark, color = ("✗", "red") if line.fix else ("○", "yellow") if line.absent else ("✓", "green")
            fix = f" Fix: {line.fix}" if line.fix else ""
            say(f"{mark} {line.name:<{WIDTH}} {line.text}{fix}", color=color, mark_only=True)
            if line.fix:
                problems.append(line)
    stopping = [line for line in problems if line.stops]
    count = f"{len(problems)} problem{'s' * (len(problems) != 1)}"
    say()
    if stopping:
        say(f"{count}, {len(stopping)} of which block{'s' * (len(stopping) == 1)} the course. First: {stopping[0].fix}")
    elif problems:
        say(f"{count}, none of which blocks the course. Next: {next_command()}")
    else:
        say(f"No problems found. Next: {next_command()}")
    return 1 if stopping else 0


def _lines_of(check: Check) -> list[Line]:
    """Return a check's lines; one line if it raised."""
    found: list[Line] = []
    try:
        found += check()
    except Exception as error:
        what = f"could not be checked: {type(error).__name__}: {error}".splitlines()[0]
        found.append(Line(check.__name__, what, fix="pdm install"))
    return found
