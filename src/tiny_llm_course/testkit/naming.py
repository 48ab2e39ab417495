"""Find a failing program's mistakes among its task's known programs, or the tasks that are to blame.

A mistake is named when the program's outcome equals a wrong program's on every probe: the same shapes, dtypes and, up
to rounding, numbers, or the same exception. If it equals none, programs with two of the mistakes are tried.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TypeVar

from ..course.entities import Task
from ..programs import kernels, parts
from ..programs.packages import SOLUTION_NAME, NotImportable, all_installed, program
from .outcomes import Outcome, Program, Stopped, outcome
from .variants import Variant, Variants

Case = TypeVar("Case")


@dataclasses.dataclass(frozen=True)
class Candidates:
    """The programs it may equal, the tasks to blame, those that may explain some cases, and which of these show."""

    programs: tuple[Variant, ...] = ()
    culprits: tuple[Task, ...] = ()
    likely: tuple[Variant, ...] = dataclasses.field(default=(), compare=False)
    showing: tuple[Variant, ...] = dataclasses.field(default=(), compare=False)
    # The mistakes in a reworded solution, which may be the ones if the checks refute all `programs`.
    reworded: Callable[[], list[Variant]] = dataclasses.field(default=list, compare=False)

    @property
    def mistakes(self) -> list[Variant]:
        """The mistakes that would be named."""
        return [mistake for program in self.programs for mistake in program.mistakes]


Subject = Program | Variant


def candidates(known: Variants, subject: Subject, needs: Sequence[Task], until: float = math.inf) -> Candidates:
    """Return what may be wrong with a program whose task uses `needs`; stop trying pairs at this CPU time."""
    with solved(needs):
        mine = known.outcomes(subject)
        if not known.alike(mine, [known.solution]):
            alike = _wrong(known, mine)
            if not alike:
                pairs: Iterable[Variant] = known.pairs
                if not known.task.target.is_python:  # kernels have to be compiled: filter first
                    pairs = (pair for pair in pairs if time.process_time() < until and could_match(known, mine, pair))
                both = known.alike(mine, list(pairs), until)
                alike = both if len(both) == 1 else []  # none if several have the same outcomes
            some = tuple(alike or likely(known, mine))
            showing = tuple(v for v in some if shows(known, mine, v))
            return Candidates(tuple(alike), (), some, showing, lambda: known.alike(mine, known.in_other_words))
    tried = subject.program if isinstance(subject, Variant) else subject
    return Candidates(culprits=culprits(lambda: right(known, tried), needs))


def right(known: Variants, subject: Program) -> bool:
    """Return whether the program equals the solution on all probes."""
    runs = (outcome(probe.run, subject) for probe in known.probes)  # lazily: the first that differs is enough
    return all(known.equal(each, known.solution, number) for number, each in enumerate(runs))


def mistakes(known: Variants, subject: Subject) -> list[Variant]:
    """Return the wrong programs that the program equals on all probes; none if it equals the solution."""
    mine = known.outcomes(subject)
    return [] if known.alike(mine, [known.solution]) else _wrong(known, mine)


def _wrong(known: Variants, mine: list[Outcome]) -> list[Variant]:
    """Return the wrong programs with the same outcomes on all probes, or else those made of a reworded solution."""
    return known.alike(mine, known.wrong_programs) or known.alike(mine, known.in_other_words)


def could_match(known: Variants, mine: list[Outcome], pair: Variant) -> bool:
    """Return whether, wherever at most one of a pair's mistakes shows, the outcome is that one's."""
    for number, each in enumerate(mine):
        showing = [mistake for mistake in pair.both if known.shows(mistake, number)]
        if len(showing) < 2 and not known.equal(each, [*showing, known.solution][0], number):
            return False
    return True


def likely(known: Variants, mine: list[Outcome]) -> list[Variant]:
    """Return the wrong programs that are right on every probe on which this one is: one mistake of several may show."""
    if all(isinstance(each, Stopped) for each in mine):  # that says too little
        return []
    correct = [(number, each) for number, each in enumerate(mine) if known.equal(each, known.solution, number)]
    return [v for v in known.wrong_programs if all(known.equal(each, v, number) for number, each in correct)]


def shows(known: Variants, mine: list[Outcome], mistake: Variant) -> bool:
    """Return whether the program has a mistake's outcome on a probe on which that differs from the solution's."""
    return any(known.shows(mistake, n) and known.equal(each, mistake, n) for n, each in enumerate(mine))


Equal = Callable[[Case, Variant], bool]


def explained(cases: Iterable[Case], likely: Sequence[Variant], equal: Equal[Case]) -> tuple[Case, Variant] | None:
    """Return the first failing case that exactly one known program explains, and that program; else None."""
    alike = ((case, [v for v in likely if equal(case, v)]) for case in cases)
    return next(((case, found[0]) for case, found in alike if len(found) == 1), None)


def culprits(enough: Callable[[], bool], needs: Sequence[Task]) -> tuple[Task, ...]:
    """Return the needs to blame: the fewest, of two the earlier, with whose solution `enough()` becomes true."""

    @cache
    def with_solved(*chosen: Task) -> bool:
        with solved(chosen):
            return enough()

    def kept(before: Sequence[Task], some: Sequence[Task], after: Sequence[Task]) -> Sequence[Task]:
        """Return which of `some` must be replaced beside these others, if replacing all of `some` is enough."""
        if with_solved(*before, *after):
            return []
        if len(some) <= 1:
            return some
        # Bisect: one wrong need of many is found in a few steps.
        early, late = some[: len(some) // 2], some[len(some) // 2 :]
        late = kept([*before, *early], late, after)
        return [*kept(before, early, [*late, *after]), *late]

    return tuple(kept([], needs, []))


@contextlib.contextmanager
def solved(tasks: Sequence[Task]) -> Iterator[None]:
    """Use the solution's targets of these tasks while the block runs."""
    replacements = {}
    for task in tasks:
        with contextlib.suppress(NotImportable, AttributeError):  # the file or the function is missing
            program(task.program)
            ours = program(task.program, SOLUTION_NAME)
            is_python, target = task.target.is_python, task.target
            replacements[task.program] = ours if is_python else kernels.with_lines(task, parts.solved_part(target))
    with all_installed(replacements):
        yield
