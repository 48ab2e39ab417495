"""Inject faults and count what the diagnosis claims: it may be silent, but never wrong.

A task runs on known-wrong programs of the tasks that it uses, first one at a time, then with two faults at once: in two
such tasks, in one of them and in the task itself, or twice in the task. If there are more than MAX_COMBINATIONS
(MAX_KERNEL_COMBINATIONS for kernels), an evenly spaced, fixed sample is taken.
"""

import contextlib
import dataclasses
import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import mlx.core as mx

from ..course.entities import Task
from ..course.registry import load_course
from ..course.requirements import missing
from ..paths import SOLUTION
from ..programs.packages import installed, program
from ..source.edits import DoesNotApply
from ..testkit.naming import Candidates, candidates, explained, right
from ..testkit.outcomes import Stopped
from ..testkit.variants import Program, Variant, Variants, load_variants

MAX_COMBINATIONS = 16  # combinations of one kind for one task
MAX_KERNEL_COMBINATIONS = 4  # where each has to be compiled

T = TypeVar("T")
Faults = list[tuple[Task, Variant]]  # wrong programs, each with its task


@dataclasses.dataclass
class DiagnosisScore:
    """What the diagnosis of one task said of injected faults, and how much of it was false."""

    task: str
    planted: int = 0  # faults in tasks that it uses, of which ...
    caught: int = 0  # change its output on its probes
    traced: int = 0  # are blamed on the faulty task alone
    wrong_claims: int = 0  # are blamed on something else
    two_mistakes: int = 0  # programs with two faults, of which ...
    pairs: int = 0  # have both in the task itself
    both_named: int = 0  # are named in full, or as the third mistake that they amount to
    one_named: int = 0  # are named in one case
    false_claims: int = 0  # are diagnosed as something else
    problems: list[str] = dataclasses.field(default_factory=list)


class FaultInjector:
    """Injects faults for some tasks; their own mistakes are built first, from `tiny_llm`, so that faults reach them."""

    def __init__(self, variants: Mapping[str, Variants]) -> None:
        course = load_course()
        self._variants = variants
        self._own = {task: buildable(load_variants(course.task(task), "tiny_llm").wrong_programs) for task in variants}
        used = {need for task in variants for need in course.needs(task) if not missing(course.task(need).requires)}
        self._wrong = {need: buildable(load_variants(course.task(need)).wrong_programs) for need in sorted(used)}

    def score(self, task: Task) -> DiagnosisScore:
        """Inject every kind of fault for one task, and score its diagnosis."""
        course, found = load_course(), DiagnosisScore(task.id)
        needs = [course.task(need) for need in course.needs(task.id) if need in self._wrong]
        faults = [(need, fault) for need in needs for fault in self._wrong[need.id]]
        self._one_fault(task, needs, faults, found)
        self._two_faults(task, needs, faults, found)
        self._fault_and_mistake(task, needs, faults, found)
        self._two_mistakes(task, found)
        return found

    def _one_fault(self, task: Task, needs: list[Task], faults: Faults, found: DiagnosisScore) -> None:
        for need, fault in evenly_sampled(faults, task):
            found.planted += 1
            with installed(need.program, fault.program):
                if right(self._variants[task.id], program(task.program)):
                    continue
                found.caught += 1
                said = self._diagnosis(task, program(task.program), needs)
            found.traced += said.culprits == (need,)
            if said.mistakes or set(said.culprits) - {need}:
                found.wrong_claims += 1
                found.problems.append(f"{fault.name} of {need.id} is blamed on {_said(said)}")

    def _two_faults(self, task: Task, needs: list[Task], faults: Faults, found: DiagnosisScore) -> None:
        pairs = [(a, b) for a, b in itertools.combinations(faults, 2) if a[0] is not b[0]]
        for (need, fault), (other, another) in evenly_sampled(pairs, task):
            with installed(need.program, fault.program), installed(other.program, another.program):
                said = self._diagnosis(task, program(task.program), needs)
            _count(found, said, [], [need, other], f"{fault.name} of {need.id} and {another.name}")

    def _fault_and_mistake(self, task: Task, needs: list[Task], faults: Faults, found: DiagnosisScore) -> None:
        for (need, fault), mistake in evenly_sampled(list(itertools.product(faults, self._own[task.id])), task):
            with installed(need.program, fault.program):
                said = self._diagnosis(task, mistake.program, needs)
            _count(found, said, [mistake.name], [], f"{fault.name} of {need.id} and {mistake.name}")

    def _two_mistakes(self, task: Task, found: DiagnosisScore) -> None:
        thirds = self._variants[task.id].thirds
        for pair in evenly_sampled(buildable(self._variants[task.id].pairs), task):
            both = frozenset(mistake.name for mistake in pair.both)
            said = self._diagnosis(task, pair, [])
            whole = {mistake.name for mistake in said.mistakes} in (both, {thirds.get(both)})
            if not said.programs:
                said = dataclasses.replace(said, programs=self._in_one_case(task, pair, said.likely))
            _count(found, said, [*both, thirds.get(both, "")], [], pair.name)
            found.pairs += 1
            found.both_named += whole
            found.one_named += bool(said.programs) and not whole

    def _in_one_case(self, task: Task, subject: Variant, likely: Sequence[Variant]) -> tuple[Variant, ...]:
        """Return the mistake that would be reported beside others if the probes were the task's checks."""
        known = self._variants[task.id]
        mine = known.outcomes(subject)
        wrong = [n for n, each in enumerate(mine) if not known.equal(each, known.solution, n)]
        ended = [n for n in wrong if not isinstance(mine[n], Stopped)]
        reported = explained(ended, likely, lambda n, v: known.equal(mine[n], v, n))
        return reported[1:] if reported else ()

    def _diagnosis(self, task: Task, subject: Program | Variant, needs: list[Task]) -> Candidates:
        return candidates(self._variants[task.id], subject, needs, math.inf)


def _count(found: DiagnosisScore, said: Candidates, mistakes: Iterable[str], culprits: list[Task], what: str) -> None:
    """Count one program with two faults, and whether the diagnosis claims anything false of it."""
    found.two_mistakes += 1
    if {m.name for m in said.mistakes} - set(mistakes) or set(said.culprits) - set(culprits):
        found.false_claims += 1
        found.problems.append(f"{what} together are called {_said(said)}")


def buildable(variants: Iterable[Variant]) -> list[Variant]:
    """Return the variants that can be built; the proof itself reports a single edit that does not apply."""
    found = []
    for variant in variants:
        with contextlib.suppress(DoesNotApply):
            _ = variant.program
            found.append(variant)
    return found


def evenly_sampled(items: Sequence[T], task: Task) -> list[T]:
    """Return all combinations for a task, or as many as are tried, evenly spaced."""
    number = min(MAX_COMBINATIONS if task.target.is_python else MAX_KERNEL_COMBINATIONS, len(items))
    return [items[i * len(items) // number] for i in range(number)]


def score_diagnoses(tasks: Sequence[Task], variants: Mapping[str, Variants]) -> dict[str, DiagnosisScore]:
    """Score the diagnosis of each task that has variants here. `tiny_llm` becomes the solution."""
    mx.set_default_device(mx.cpu)
    sys.path.insert(0, str(SOLUTION.parent))
    injector = FaultInjector(variants)
    return {task.id: injector.score(task) for task in tasks if task.id in variants}


def _said(said: Candidates) -> str:
    named = [mistake.name for mistake in said.mistakes]
    return f"{' and '.join([*named, *(f'a fault of {task.id}' for task in said.culprits)])}"
