"""Grade a check written by the learner: it must stop every wrong program of a task, by raising, and no right one."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import mlx.core as mx

from ..course.findings import CheckFailed, Finding, Kind
from ..course.registry import load_course
from ..programs.packages import NotImportable
from .blind import BlindPrograms, KnownProgram, programs_of
from .variants import Variant, load_variants

Check = Callable[[Callable[..., Any]], object]


class Verdict(NamedTuple):
    """What a check made of a program."""

    error: Exception | None  # that stopped the program
    denied: bool  # it returned a false value, which stops nothing


class Judgement(NamedTuple):
    """A verdict on a program that has been revealed."""

    program: KnownProgram
    verdict: Verdict
    is_right: bool  # a right program passed, or a wrong one was stopped


def rejects_wrong_programs(check: Check, of: str) -> None:
    """Check that a learner's check stops the wrong programs of a task, and no right one."""
    found = _judgements(check, of)
    wrong = [each for each in found if not each.program.right]
    right = [each for each in found if each.program.right]
    amiss = next((each for each in found if not each.is_right), None)  # the right ones come first
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
        lines.append(f"it stops a right program: {f'one written in another way, {way}' if way else 'our solution'}")
    else:
        lines.append(f"question about a wrong program that passes: {amiss.program.question}")
    misjudged = _known(of)[amiss.program.place].program  # noqa: F841  # `case` finds it in this frame
    raise CheckFailed(Finding(Kind.MISJUDGED, headline, tuple(lines))) from amiss.verdict.error


def check_verdicts(check: Check, of: str) -> mx.array:
    """Return a check's verdict on each known program of a task: 0 stopped, 1 passed, 2 passed but returned False."""
    verdicts = [_verdict(check, known.program) for known in _known(of)]
    return mx.array([0 if verdict.error else 1 + verdict.denied for verdict in verdicts])


def _judgements(check: Check, of: str) -> list[Judgement]:
    """Return a check's verdict on each known program of a task, the right ones first, in the order of their file."""
    programs = _blind_programs(of)
    if not programs.is_alive:
        _blind_programs.cache_clear()
        programs = _blind_programs(of)
    verdicts = [_verdict(check, program) for program in programs.trials()]
    judged = zip(programs.reveal(), verdicts, strict=True)
    return sorted(Judgement(known, verdict, known.right == (verdict.error is None)) for known, verdict in judged)


def _verdict(check: Check, program: Callable[..., Any]) -> Verdict:
    try:
        given = check(program)
    except (CheckFailed, NotImportable, NotImplementedError):  # they say nothing about the program
        raise
    except Exception as error:
        return Verdict(error, False)
    try:
        return Verdict(None, given is not None and not given)
    except Exception:  # an array of several elements has no truth value
        return Verdict(None, False)


@cache
def _blind_programs(of: str) -> BlindPrograms:
    return BlindPrograms(of)  # one process serves all checks


@cache
def _known(of: str) -> list[Variant]:
    return programs_of(load_variants(load_course().task(of)))
