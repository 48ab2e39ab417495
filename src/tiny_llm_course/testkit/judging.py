"""Grade a check written by the learner: it must stop every wrong program of a task, by raising, and no right one."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import mlx.core as mx

from ..course.findings import CheckFailed, Finding, Kind
from ..course.registry import load_course
from ..programs.packages import NotImportable
from .blind import BlindPrograms, programs_of
from .variants import Variant, load_variants

Check = Callable[[Callable[..., Any]], object]


class Verdict(NamedTuple):
    """What a check made of a program."""

    error: Exception | None  # that stopped the program
    denied: bool  # it returned a false value, which stops nothing


def rejects_wrong_programs(check: Check, of: str) -> None:
    """Check that a learner's check stops the wrong programs of a task, and no right one."""
    programs = _blind_programs(of)
    if not programs.is_alive:
        _blind_programs.cache_clear()
        programs = _blind_programs(of)
    verdicts = [_verdict(check, program) for program in programs.trials()]
    # The right programs come first, in the order of their file.
    judged = sorted(zip(programs.reveal(), verdicts, strict=True))
    correct = [(known.right, known.right == (verdict.error is None)) for known, verdict in judged]
    if all(is_correct for _, is_correct in correct):
        return
    wrong, right = ([is_correct for kind, is_correct in correct if kind is each] for each in (False, True))
    amiss, verdict = next(each for each, (_, is_correct) in zip(judged, correct, strict=True) if not is_correct)
    counts = f"{sum(wrong)} of {len(wrong)} wrong programs are stopped"
    headline = f"{counts}, {sum(right)} of {len(right)} right ones pass"
    lines = []
    if all(each.error for each in verdicts):
        lines.append("your check stops every program, right or wrong")
    elif not any(each.error for each in verdicts):
        lines.append("your check stops no program")
    if denials := sum(each.denied for each in verdicts):
        times = f"{denials} time{'s' * (denials > 1)}"
        lines.append(f"it returned False {times}: to stop a program it must raise, as assert does")
    if verdict.error:
        way = amiss.name.replace("-", " ")
        lines.append(f"it stops a right program: {f'one written in another way, {way}' if way else 'our solution'}")
    else:
        lines.append(f"question about a wrong program that passes: {amiss.question}")
    misjudged = _known(of)[amiss.place].program  # noqa: F841  # `case` finds it in this frame
    raise CheckFailed(Finding(Kind.MISJUDGED, headline, tuple(lines))) from verdict.error


def check_verdicts(check: Check, of: str) -> mx.array:
    """Return a check's verdict on each known program of a task: 0 stopped, 1 passed, 2 passed but returned False."""
    verdicts = [_verdict(check, known.program) for known in _known(of)]
    return mx.array([0 if verdict.error else 1 + verdict.denied for verdict in verdicts])


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
