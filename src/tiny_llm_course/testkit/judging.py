"""A check of the learner's, judged by the known programs of a task: it must stop every wrong one and no right one.

A check stops a program by raising. When it is graded, it is given them by `apart`, and can tell them by nothing but
what they compute. What known checks do, good ones and bad ones, is found out here, which is quicker.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import mlx.core as mx

from ..course.findings import CheckFailed, Finding, Kind
from ..course.registry import load_course
from ..programs.packages import NotImportable
from .apart import Apart, Known, programs_of
from .variants import Variant, load_variants

Check = Callable[[Callable[..., Any]], object]


class Verdict(NamedTuple):
    """What a check has made of a program."""

    error: Exception | None  # by which it has stopped it
    denied: bool  # it has given something like False, which stops nothing


class Judgement(NamedTuple):
    """The same, of a program that is known."""

    program: Known
    verdict: Verdict

    @property
    def is_right(self) -> bool:
        """Whether a right program has passed, or a wrong one has not."""
        return self.program.right == (self.verdict.error is None)


def stops_what_is_wrong(check: Check, of: str) -> None:
    """Check that a check stops the wrong programs of a task, and no right one."""
    found = _judgements(check, of)
    wrong = [each for each in found if not each.program.right]
    right = [each for each in found if each.program.right]
    amiss = next((each for each in found if not each.is_right), None)  # the right ones stand first
    if amiss is None:
        return
    counts = f"{sum(each.is_right for each in wrong)} of {len(wrong)} wrong programs are stopped"
    headline = f"{counts}, {sum(each.is_right for each in right)} of {len(right)} right ones pass"
    lines = []
    if all(each.verdict.error for each in found):
        lines.append("your check stops every program, right or wrong")
    elif not any(each.verdict.error for each in found):
        lines.append("your check stops no program")
    if denials := sum(each.verdict.denied for each in found):
        times = f"{denials} time{'s' * (denials > 1)}"
        lines.append(f"it returned False {times}: to stop a program it must raise, as assert does")
    if amiss.verdict.error:
        way = amiss.program.name.replace("-", " ")
        lines.append(f"stopped, though right: {f'one written in another way, {way}' if way else 'our solution'}")
    else:
        lines.append(f"of one that passes, one would ask: {amiss.program.question}")
    misjudged = _known(of)[amiss.program.place].program  # noqa: F841  # which `case` finds here
    raise CheckFailed(Finding(Kind.MISJUDGED, headline, tuple(lines))) from amiss.verdict.error


def let_through(check: Check, of: str) -> mx.array:
    """What a check makes of the known programs of a task, in their order: 0 it stops, 1 passes, 2 it denies in vain."""
    verdicts = [_verdict(check, known.program) for known in _known(of)]
    return mx.array([0 if verdict.error else 1 + verdict.denied for verdict in verdicts])


def _judgements(check: Check, of: str) -> list[Judgement]:
    """What a check makes of each known program of a task, the right ones first, in the order of their file."""
    programs = _apart(of)
    if not programs.is_there:
        _apart.cache_clear()
        programs = _apart(of)
    verdicts = [_verdict(check, program) for program in programs.turns()]
    return sorted(map(Judgement, programs.had_turns(), verdicts))


def _verdict(check: Check, program: Callable[..., Any]) -> Verdict:
    try:
        given = check(program)
    except (CheckFailed, NotImportable, NotImplementedError):  # which say nothing of the program
        raise
    except Exception as error:
        return Verdict(error, False)
    try:
        return Verdict(None, given is not None and not given)
    except Exception:  # an array of several numbers
        return Verdict(None, False)


@cache
def _apart(of: str) -> Apart:
    """The known programs of a task: one process of them for all checks."""
    return Apart(of)


@cache
def _known(of: str) -> list[Variant]:
    return programs_of(load_variants(load_course().task(of)))
