"""What is told of a failing program by means of its task's known programs: its mistakes, or whose fault it is.

A mistake is named when the program's outcome equals that of a wrong program on every probe: the same shapes, dtypes
and, to rounding, numbers, or the same stop. If it equals none, programs with two of the mistakes at once are tried. If
it equals none of these, what is said is true of one case only, and of no other known mistake there.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeVar

from ..course.nouns import Task
from ..programs import kernels, parts
from ..programs.packages import SOLUTION_NAME, NotImportable, all_installed, program
from .outcomes import Outcome, Program, Stopped, outcome
from .variants import Variant, Variants

Case = TypeVar("Case")


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What to tell of a failing program: which wrong programs it may be, or from whose mistakes it suffers.

    `likely` are the wrong programs that may explain some of its cases.
    """

    programs: tuple[Variant, ...] = ()
    culprits: tuple[Task, ...] = ()
    likely: tuple[Variant, ...] = dataclasses.field(default=(), compare=False)

    @property
    def mistakes(self) -> list[Variant]:
        """The mistakes that would be named."""
        return [mistake for program in self.programs for mistake in program.mistakes]


def diagnosis(known: Variants, subject: Program, needs: Sequence[Task], until: float = math.inf) -> Diagnosis:
    """What to tell of a program, whose own needs are its task's; pairs are tried until this much time was computed."""
    with solved(needs):
        mine = known.outcomes(subject)
        if not known.alike(mine, [known.solution]):
            alike = _wrong(known, mine) or _pair(known, mine, until)
            return Diagnosis(tuple(alike), likely=tuple(alike or likely(known, mine)))
    return Diagnosis(culprits=culprits(lambda: right(known, subject), needs))


def right(known: Variants, subject: Program) -> bool:
    """Whether the program equals the solution on all probes."""
    runs = (outcome(probe.run, subject) for probe in known.probes)  # the first that differs is enough
    return all(known.equal(each, known.solution, number) for number, each in enumerate(runs))


def mistakes(known: Variants, subject: Program) -> list[Variant]:
    """The wrong programs that the program equals on all probes; none if it equals the solution."""
    mine = known.outcomes(subject)
    return [] if known.alike(mine, [known.solution]) else _wrong(known, mine)


def _wrong(known: Variants, mine: list[Outcome]) -> list[Variant]:
    """The wrong programs with the same outcomes on all probes, or else those made of the solution in other words."""
    return known.alike(mine, known.wrong_programs) or known.alike(mine, known.in_other_words)


def _pair(known: Variants, mine: list[Outcome], until: float) -> list[Variant]:
    """The one program with two mistakes that has the same outcomes on all probes; none if there are several.

    Kernels have to be compiled: of them, only those are that may be it.
    """
    pairs: Iterable[Variant] = known.pairs
    if not known.task.target.is_python:
        pairs = (pair for pair in pairs if time.process_time() < until and _may_be(known, mine, pair))
    alike = known.alike(mine, list(pairs), until)
    return alike if len(alike) == 1 else []


def _may_be(known: Variants, mine: list[Outcome], pair: Variant) -> bool:
    """Whether wherever one of two mistakes does not show, the outcome is the other's: seen without the two together."""
    for number, each in enumerate(mine):
        showing = [mistake for mistake in pair.both if known.shows(mistake, number)]
        if len(showing) < 2 and not known.equal(each, [*showing, known.solution][0], number):
            return False
    return True


def likely(known: Variants, mine: list[Outcome]) -> list[Variant]:
    """The wrong programs that are right on each probe on which this one is: a mistake shows, whatever is beside it.

    None if it stops on all probes, which says too little.
    """
    if all(isinstance(each, Stopped) for each in mine):
        return []
    correct = [(number, each) for number, each in enumerate(mine) if known.equal(each, known.solution, number)]
    return [v for v in known.wrong_programs if all(known.equal(each, v, number) for number, each in correct)]


def explained(
    cases: Iterable[Case], likely: Sequence[Variant], equal: Callable[[Case, Variant], bool]
) -> tuple[Case, Variant] | None:
    """The first of some failing cases that just one known program explains, and this; None if there is no such case."""
    for case in cases:
        alike = [v for v in likely if equal(case, v)]
        if len(alike) == 1:
            return case, alike[0]
    return None


def culprits(enough: Callable[[], bool], needs: Sequence[Task]) -> tuple[Task, ...]:
    """The needs whose mistakes a program suffers from: with the solution's in their place, what is asked is true.

    As few as will do, and of two that would do the earlier: the later one is right as soon as that is. None if it is
    true as things are.
    """

    @cache
    def with_solved(*chosen: Task) -> bool:
        with solved(chosen):
            return enough()

    def kept(before: Sequence[Task], some: Sequence[Task], after: Sequence[Task]) -> Sequence[Task]:
        """Those of some needs that must be the solution's beside these others; all of them together are enough."""
        if with_solved(*before, *after):
            return []
        if len(some) <= 1:
            return some
        # By halves: one wrong need of many is found in a few steps.
        early, late = some[: len(some) // 2], some[len(some) // 2 :]
        late = kept([*before, *early], late, after)
        return [*kept(before, early, [*late, *after]), *late]

    return tuple(kept([], needs, []))


@contextlib.contextmanager
def solved(tasks: Sequence[Task]) -> Iterator[None]:
    """While the block runs, the targets of these tasks are the solution's."""
    replacements = {}
    for task in tasks:
        with contextlib.suppress(NotImportable, AttributeError):  # a file or a function that is not there
            program(task.program)
            replacements[task.program] = _solution_of(task)
    with all_installed(replacements):
        yield


def _solution_of(task: Task) -> Program:
    """The solution's program; of another language, one that puts its lines where others call them."""
    if task.target.is_python:
        solution: Program = program(task.program, SOLUTION_NAME)
        return solution
    return kernels.with_lines(task, parts.solved_part(task.target))
