"""A check of the learner's, judged by the known programs of a task: it must stop every wrong one and no right one.

A check stops a program by raising. It is given each of them by `apart`, so that it can tell them by nothing but what
they compute.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import mlx.core as mx

from ..course.findings import CheckFailed, Finding, Kind
from ..programs.packages import NotImportable
from .apart import Apart, Known

Check = Callable[[Callable[..., Any]], object]


class Judgement(NamedTuple):
    """What a check has made of a known program."""

    program: Known
    error: Exception | None  # by which it has stopped it
    denied: bool  # it has given something like False, which stops nothing

    @property
    def is_right(self) -> bool:
        """Whether a right program has passed, or a wrong one has not."""
        return self.program.right == (self.error is None)


def stops_what_is_wrong(check: Check, of: str) -> None:
    """Check that a check stops the wrong programs of a task, and no right one."""
    found = judgements(check, of)
    wrong = [each for each in found if not each.program.right]
    right = [each for each in found if each.program.right]
    amiss = next((each for each in found if not each.is_right), None)  # the right ones stand first
    if amiss is None:
        return
    counts = f"{sum(each.is_right for each in wrong)} of {len(wrong)} wrong programs are stopped"
    headline = f"{counts}, {sum(each.is_right for each in right)} of {len(right)} right ones pass"
    lines = []
    if all(each.error for each in found):
        lines.append("your check stops every program, whatever it computes")
    elif not any(each.error for each in found):
        lines.append("your check stops no program")
    if denials := sum(each.denied for each in found):
        lines.append(
            f"it gave False {denials} time{'s' * (denials > 1)}: to stop a program it must raise, as assert does"
        )
    if amiss.error:
        way = amiss.program.name.replace("-", " ")
        lines.append(f"stopped, though right: {f'one written as {way!r}' if way else 'our solution'}")
    else:
        lines.append(f"of one that passes, one would ask: {amiss.program.question}")
    raise CheckFailed(Finding(Kind.MISJUDGED, headline, tuple(lines))) from amiss.error


def let_through(check: Check, of: str) -> mx.array:
    """What a check makes of the known programs of a task, in their order: 0 it stops, 1 passes, 2 it denies in vain."""
    return mx.array([0 if each.error else 1 + each.denied for each in judgements(check, of)])


def judgements(check: Check, of: str) -> list[Judgement]:
    """What a check makes of each known program of a task, the right ones first, in the order of their file."""
    programs = _programs(of)
    if not programs.is_there:
        _programs.cache_clear()
        programs = _programs(of)
    made = []
    for program in programs.turns():
        try:
            made.append((None, _denies(check(program))))
        except (CheckFailed, NotImportable, NotImplementedError):  # nothing that it says of the program
            raise
        except Exception as error:
            made.append((error, False))
    return sorted(Judgement(known, *each) for known, each in zip(programs.had_turns(), made, strict=True))


@cache
def _programs(of: str) -> Apart:
    """The known programs of a task: one process of them for all checks here."""
    return Apart(of)


def _denies(given: object) -> bool:
    """Whether what a check gave is something like False."""
    try:
        return given is not None and not given
    except Exception:  # an array of several numbers
        return False
