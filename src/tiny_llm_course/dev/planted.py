"""Plants faults where the diagnosis must find them, and counts what it claims: it may be silent, and never wrong.

A task is run on known-wrong programs of the tasks that it uses, one at a time, and then on two mistakes at once: one in
each of two tasks that it uses, one in such a task and one in its own program, two in its own program. Where there are
more combinations than MOST, or MOST_KERNELS, as many are taken, evenly spread over all, the same ones every time.
"""

import contextlib
import dataclasses
import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import mlx.core as mx

from ..course.nouns import Task
from ..course.registry import load_course
from ..course.requirements import missing
from ..paths import SOLUTION
from ..programs.packages import installed, program
from ..source.changed import DoesNotApply
from ..testkit.naming import Diagnosis, diagnosis, explained, right
from ..testkit.outcomes import Stopped
from ..testkit.variants import Program, Variant, Variants, load_variants

MOST = 16  # combinations of one kind for one task
MOST_KERNELS = 4  # where each has to be compiled

T = TypeVar("T")


@dataclasses.dataclass
class Claims:
    """What the diagnosis of one task said, and what of it was false.

    Of `planted` faults in the tasks that it uses, `caught` change what the task computes on its probes, `traced` are
    traced to the task that has the fault and to no other, and `wrong_claims` blame another. Of `two_mistakes` at once
    `false_claims` are called something else; `pairs` of them are the task's own.
    """

    task: str
    planted: int = 0
    caught: int = 0
    traced: int = 0
    wrong_claims: int = 0
    two_mistakes: int = 0
    pairs: int = 0
    both_named: int = 0  # or the third mistake that they come to
    one_named: int = 0  # in one case
    false_claims: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)


class Planter:
    """Plants faults for some tasks, in this process, whose `tiny_llm` is the solution.

    A task's own mistakes are made of `tiny_llm`, so that they suffer from the faults; before any is planted.
    """

    def __init__(self, variants: Mapping[str, Variants]) -> None:
        course = load_course()
        self._variants = variants
        self._own = {task: made(load_variants(course.task(task), "tiny_llm").wrong_programs) for task in variants}
        used = {need for task in variants for need in course.needs(task) if not missing(course.task(need).requires)}
        self._wrong = {need: made(load_variants(course.task(need)).wrong_programs) for need in sorted(used)}

    def claims(self, task: Task) -> Claims:
        """Plant them all for one task."""
        course, found = load_course(), Claims(task.id)
        needs = [course.task(need) for need in course.needs(task.id) if need in self._wrong]
        faults = [(need, fault) for need in needs for fault in self._wrong[need.id]]
        self._one_fault(task, needs, faults, found)
        self._two_faults(task, needs, faults, found)
        self._fault_and_mistake(task, needs, faults, found)
        self._two_mistakes(task, found)
        return found

    def _one_fault(self, task: Task, needs: list[Task], faults: list[tuple[Task, Variant]], found: Claims) -> None:
        for need, fault in spread(faults, most(task)):
            found.planted += 1
            with planted(need, fault):
                if right(self._variants[task.id], program(task.program)):
                    continue
                found.caught += 1
                said = self._diagnosis(task, program(task.program), needs)
            found.traced += said.culprits == (need,)
            if said.mistakes or set(said.culprits) - {need}:
                found.wrong_claims += 1
                found.problems.append(f"{fault.name} of {need.id} is blamed on {_said(said)}")

    def _two_faults(self, task: Task, needs: list[Task], faults: list[tuple[Task, Variant]], found: Claims) -> None:
        """The task is right, two that it uses are not."""
        pairs = [(a, b) for a, b in itertools.combinations(faults, 2) if a[0] is not b[0]]
        for (need, fault), (other, another) in spread(pairs, most(task)):
            with planted(need, fault), planted(other, another):
                said = self._diagnosis(task, program(task.program), needs)
            _count(found, said, [], [need, other], f"{fault.name} of {need.id} and {another.name}")

    def _fault_and_mistake(self, task: Task, needs: list[Task], faults: list[Any], found: Claims) -> None:
        """The task is wrong, and so is one that it uses."""
        for (need, fault), mistake in spread(list(itertools.product(faults, self._own[task.id])), most(task)):
            with planted(need, fault):
                said = self._diagnosis(task, mistake.program, needs)
            _count(found, said, [mistake.name], [], f"{fault.name} of {need.id} and {mistake.name}")

    def _two_mistakes(self, task: Task, found: Claims) -> None:
        """Two mistakes in one program, where two known ones can be put together."""
        thirds = self._variants[task.id].thirds
        for pair in spread(made(self._variants[task.id].pairs), most(task)):
            both = frozenset(mistake.name for mistake in pair.both)
            said = self._diagnosis(task, pair.program, [])
            whole = {mistake.name for mistake in said.mistakes} in (both, {thirds.get(both)})
            if not said.programs:
                said = dataclasses.replace(said, programs=self._in_one_case(task, pair, said.likely))
            _count(found, said, [*both, thirds.get(both, "")], [], pair.name)
            found.pairs += 1
            found.both_named += whole
            found.one_named += bool(said.programs) and not whole

    def _in_one_case(self, task: Task, subject: Variant, likely: Sequence[Variant]) -> tuple[Variant, ...]:
        """The mistake that would be told beside others, if the probes were the task's checks."""
        known = self._variants[task.id]
        mine = known.outcomes(subject.program)
        wrong = [n for n, each in enumerate(mine) if not known.equal(each, known.solution, n)]
        told = explained(wrong, likely, lambda n, v: not isinstance(mine[n], Stopped) and known.equal(mine[n], v, n))
        return told[1:] if told else ()

    def _diagnosis(self, task: Task, subject: Program, needs: list[Task]) -> Diagnosis:
        return diagnosis(self._variants[task.id], subject, needs, math.inf)


def _count(found: Claims, said: Diagnosis, mistakes: Iterable[str], culprits: list[Task], what: str) -> None:
    """Count one program with two faults, and whether something else was claimed than what is true of it."""
    found.two_mistakes += 1
    if {m.name for m in said.mistakes} - set(mistakes) or set(said.culprits) - set(culprits):
        found.false_claims += 1
        found.problems.append(f"{what} together are called {_said(said)}")


def made(variants: Iterable[Variant]) -> list[Variant]:
    """Those wrong programs that can be made; of a single change that does not apply, the proof tells."""
    found = []
    for variant in variants:
        with contextlib.suppress(DoesNotApply):
            _ = variant.program
            found.append(variant)
    return found


def planted(task: Task, fault: Variant) -> AbstractContextManager[None]:
    """While the block runs, a task is solved by a wrong program."""
    return installed(task.program, fault.program)


def most(task: Task) -> int:
    """How many combinations are made for a task."""
    return MOST if task.target.is_python else MOST_KERNELS


def spread(items: Sequence[T], number: int = MOST) -> list[T]:
    """All of them, or so many, evenly spread."""
    if len(items) <= number:
        return list(items)
    return [items[i * len(items) // number] for i in range(number)]


def claims_of(tasks: Sequence[Task], variants: Mapping[str, Variants]) -> dict[str, Claims]:
    """Return the claims for those of some tasks that have variants here, whose `tiny_llm` is the solution."""
    mx.set_default_device(mx.cpu)
    sys.path.insert(0, str(SOLUTION.parent))
    planter = Planter(variants)
    return {task.id: planter.claims(task) for task in tasks if task.id in variants}


def _said(said: Diagnosis) -> str:
    named = [mistake.name for mistake in said.mistakes]
    return f"{' and '.join([*named, *(f'a fault of {task.id}' for task in said.culprits)])}"
