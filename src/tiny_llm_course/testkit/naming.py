"""What is told of a failing program by means of its task's known programs: its mistakes, or whose fault it is.

A mistake is named when the program's outcome equals that of a wrong program on every probe: the same shapes, dtypes
and, to rounding, numbers, or the same stop. If it equals none, programs with two of the mistakes at once are tried; if
it equals none of these, what is said is true of one probe's cases only.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from ..course.nouns import Task
from ..programs.packages import SOLUTION_NAME, NotImportable, all_installed, program
from .outcomes import Outcome, Program, Stopped
from .variants import Variant, Variants

PAIRS_SECONDS = 3.0  # for which programs with two mistakes are tried


@dataclasses.dataclass(frozen=True)
class Diagnosis:
    """What to tell of a failing program: which wrong programs it may be, or from whose mistakes it suffers.

    `here` says that it equals the wrong program in some cases only.
    """

    programs: tuple[Variant, ...] = ()
    culprits: tuple[Task, ...] = ()
    here: bool = False

    @property
    def mistakes(self) -> list[Variant]:
        """The mistakes that would be named."""
        return [mistake for program in self.programs for mistake in program.mistakes]


def diagnosis(known: Variants, subject: Program, needs: Sequence[Task], seconds: float = PAIRS_SECONDS) -> Diagnosis:
    """What to tell of a program, whose own needs are its task's; programs with two mistakes are tried for some time."""
    with solved(needs):
        mine = known.outcomes(subject)
        if not known.alike(mine, [known.solution]):
            return _by_itself(known, mine, seconds)
    return Diagnosis(culprits=culprits(lambda: right(known, subject), needs))


def right(known: Variants, subject: Program) -> bool:
    """Whether the program equals the solution on all probes."""
    return bool(known.alike(known.outcomes(subject), [known.solution]))


def mistakes(known: Variants, subject: Program) -> list[Variant]:
    """The wrong programs that the program equals on all probes; none if it equals the solution."""
    alike = known.alike(known.outcomes(subject), [known.solution, *known.wrong_programs])
    return [] if known.solution in alike else alike


def _by_itself(known: Variants, mine: list[Outcome], seconds: float) -> Diagnosis:
    alike = known.alike(mine, known.wrong_programs) or _pair(known, mine, seconds)
    return Diagnosis(tuple(alike)) if alike else Diagnosis(tuple(_in_some_cases(known, mine)), here=True)


def _pair(known: Variants, mine: list[Outcome], seconds: float) -> list[Variant]:
    """The one program with two mistakes that has the same outcomes on all probes; none if there are several."""
    alike = known.alike(mine, known.pairs, time.monotonic() + seconds)
    return alike if len(alike) == 1 else []


def _in_some_cases(known: Variants, mine: list[Outcome]) -> list[Variant]:
    """The one wrong program that has the same outcome on some probe where no other known program has it; or none.

    Nor is it told if the outcome is right on a probe on which that wrong program's is not: that is not its mistake.
    """
    found: dict[str, Variant] = {}
    correct = []
    for number, each in enumerate(mine):
        alike = [v for v in (known.solution, *known.wrong_programs) if known.equal(each, v, number)]
        if known.solution in alike:
            correct.append(alike)
        elif len(alike) == 1 and not isinstance(each, Stopped):
            found[alike[0].name] = alike[0]
    return [v for v in found.values() if len(found) == 1 and all(v in alike for alike in correct)]


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
            replacements[task.program] = program(task.program, SOLUTION_NAME)
    with all_installed(replacements):
        yield
