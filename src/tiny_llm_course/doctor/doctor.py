"""`pdm run doctor`: what this machine and this checkout can do, and one command for each thing that is wrong.

It must answer where the course's packages are missing or broken, so it stands on the standard library alone.
"""

from ..terminal.screen import say
from . import checkout, machine
from .lines import Check, Line
from .strangers import strangers

WIDTH = 10  # of the names on the left


def examine() -> int:
    """Print everything; the exit code is 1 if something stops the course."""
    problems: list[Line] = []
    for check in (strangers, *machine.CHECKS, *checkout.CHECKS):
        for line in _looked_at(check):
            _print(line)
            if line.fix:
                problems.append(line)
    stopping = [line for line in problems if line.stops]
    count = f"{len(problems)} problem{'s' * (len(problems) != 1)}"
    say()
    if stopping:
        say(f"{count}, {len(stopping)} of which stop{'s' * (len(stopping) == 1)} the course. First: {stopping[0].fix}")
    elif problems:
        say(f"{count}, none of which stops the course. Next: pdm run test --week 1 --day 1")
    else:
        say("Nothing is wrong. Next: pdm run test --week 1 --day 1")
    return 1 if stopping else 0


def _looked_at(check: Check) -> list[Line]:
    """The lines of a check, one if it could not even look."""
    found: list[Line] = []
    try:
        found += check()
    except Exception as error:
        name = check.__name__.strip("_")
        what = f"could not be looked at: {type(error).__name__}: {error}".splitlines()[0]
        found.append(Line(name, what, fix="pdm install"))
    return found


def _print(line: Line) -> None:
    mark, colour = ("✗", "red") if line.fix else ("○", "yellow") if line.absent else ("✓", "green")
    fix = f" Fix: {line.fix}" if line.fix else ""
    say(f"{mark} {line.name:<{WIDTH}} {line.text}{fix}", colour=colour, mark_only=True)
