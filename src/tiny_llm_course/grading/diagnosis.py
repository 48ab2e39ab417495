"""Decide what to claim about a failing task: nothing that its own checks contradict.

The probes say which known program the learner's may equal. The claim is withheld unless the task's checks fail on that
program where the learner's fails, in the same way, and nowhere else. The failure to show is one that both have. If
their results differ in another one, it is claimed for the case shown only.

If nothing is left to claim, it may be a slip of the solution, such as a limit missed: named if it alone gives the
learner's result in all checks. Or a small repair of the learner's program makes all checks pass: then its line is said.
Or there may be one mistake beside others. It is claimed for the first failure that exactly one known program explains:
one that passes all checks that the learner's passes, and fails as the learner's does, by the same result or exception,
in all its failures of that kind (of one test function in one way). In the case shown no other known program fails in
that way, and a second case agrees. A case that shows no result proves nothing, nor does a degenerate one, such as an
axis of size 1, in which many programs have one output. With an exception, both must stop in the same cases, except by
other exceptions; with a missing one, both must do the same on a probe. Elsewhere a second mistake may show. A task that
is used is blamed only if all checks pass with the solution's.
"""

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ..course.entities import Task
from ..course.findings import Claim, Finding, Kind
from ..course.registry import load_course
from ..learner import progress
from ..paths import LEARNER
from ..programs.packages import NotImportable, Program, installed, program
from ..source.code import holds_stub
from ..testkit.naming import Candidates, candidates, culprits, explained, solved
from ..testkit.variants import Variant, load_variants
from .failures import Failure, Failures, fails_alike, kind_of, stop_alike
from .observations import observed
from .small_changes import SmallChanges

CASES = 8  # failures that are searched for a mistake beside others
ENOUGH = 2  # failures that it must explain: one may be luck
PART = 5  # more than one in so many failures if they are in words: these and counts are equal by luck more often
# A case with an axis of size 1, or an argument 0.
DEGENERATE = re.compile(r"\b1 x |x 1\b|\b(?!axis|seed)\w+ 0(?![.\d])")


class Diagnosis(NamedTuple):
    """The mistakes to name or the tasks to blame, and the failure that shows it, if it is not the first one."""

    claims: tuple[Claim, ...] = ()
    culprits: tuple[Task, ...] = ()
    finding: Finding | None = None

    @property
    def is_vague(self) -> bool:
        """Whether it names no task, and no mistake that holds in every check."""
        return not self.culprits and all(claim.here for claim in self.claims)


@dataclasses.dataclass(frozen=True)
class Checks:
    """A task's checks, which `run` runs one at a time, and how the learner's program has failed them."""

    task: Task
    items: Sequence[pytest.Item]
    failures: Failures
    run: Callable[[pytest.Item], Failure | None]
    known: dict[tuple[str, str], Failure | None] = dataclasses.field(default_factory=dict)  # by program and check

    def confirm(self, found: Candidates, needs: Sequence[Task], wrong: Sequence[Variant]) -> Diagnosis:
        """Return what may be claimed of some candidates among all known mistakes."""
        if found.culprits:
            with solved(found.culprits):
                return Diagnosis() if any(map(self.run, self.items)) else Diagnosis(culprits=found.culprits)

        def shown_of(programs: Iterable[Variant]) -> list[tuple[Variant, Failure]]:
            return [(program, failure) for program in programs if (failure := self._shown(program, needs))]

        shown = shown_of(found.programs)
        if all(self._contradicts(known) for known, _ in shown):  # another way to write a mistake may fit exactly
            shown = shown_of(found.reworded()) or shown
        if not shown and self.task.target.is_python and (slip := self.changes.slip()):
            return Diagnosis((slip,))
        if not shown and (one := self._beside_others(found, wrong)):
            failure, program = one
            claim = dataclasses.replace(_claim(program, here=True), whole=self._equals(program))
            return Diagnosis((claim,), finding=failure.finding)
        first = min((failure.finding for _, failure in shown), key=Finding.rank, default=None)
        claims = (_claim(known, self._contradicts(known), self._is_alike(known)) for known, _ in shown)
        return Diagnosis(tuple(claims), finding=first)

    def of_stub(self, needs: Sequence[Task]) -> Diagnosis:
        """Return the diagnosis of a stub that was not reached: the tasks that it uses and would wait for."""
        item = next(item for item in self.items if self.failures[item.name])

        def reached() -> bool:
            failure = self.run(item)
            return failure is not None and failure.finding.blocker == self.task.id

        at_fault = culprits(reached, needs)
        finding = Finding(Kind.NOT_STARTED, f"not started: {self.task.label}", blocker=self.task.id)
        with solved(at_fault):
            return Diagnosis(culprits=at_fault, finding=finding) if at_fault and reached() else Diagnosis()

    def seen(self) -> Claim | None:
        """Claim what is seen in the checks, without a name for the mistake."""
        return observed(self.task, self.items, self.failures, self.run)

    @cached_property
    def changes(self) -> SmallChanges:
        """The search among programs with one small change."""
        items = sorted(self.items, key=lambda item: self._rank(item) if self.failures[item.name] else ())
        return SmallChanges(self.task, items, self.failures, self.run)

    def _shown(self, program: Variant, needs: Sequence[Task]) -> Failure | None:
        """Return the failure to show if the learner's program may be claimed to equal a known one; else None."""
        theirs = {item.name: self._of(program, item) for item in self.items}
        if not fails_alike(self.failures, theirs):
            if not needs:
                return None
            with solved(needs):  # the known program uses the solution's, so let the learner's use them too
                if not fails_alike({item.name: self.run(item) for item in self.items}, theirs):
                    return None
        shared = [failure for name, failure in self.failures.items() if failure and failure.like(theirs[name])]
        equal = [failure for name, failure in self.failures.items() if failure and failure.equals(theirs[name])]
        return min(equal or shared, key=lambda failure: failure.finding.rank(), default=None)

    def _contradicts(self, program: Variant) -> bool:
        """Return whether the learner's program has another result than a known one in a check that both fail alike."""
        failed = [(item, failure) for item in self.items if (failure := self.failures[item.name])]
        return any(failure.contradicts(self._of(program, item)) for item, failure in failed)

    def _is_alike(self, program: Variant) -> bool:
        """Return whether the learner's program has the known one's result in no failing check."""
        return not any(mine.equals(self._of(program, i)) for i in self.items if (mine := self.failures[i.name]))

    def _equals(self, program: Variant) -> bool:
        """Return whether the learner's program has a known one's result in every check."""
        pairs = ((self.failures[item.name], self._of(program, item)) for item in self.items)
        return all(mine.equals(theirs) if mine else theirs is None for mine, theirs in pairs)

    def _beside_others(self, found: Candidates, wrong: Sequence[Variant]) -> tuple[Failure, Variant] | None:
        """Return a failure that exactly one of the likely programs explains, and that program; else None."""
        kinds: dict[tuple[str, Kind | None], list[pytest.Item]] = {}
        for item in sorted(filter(self._is_example, self.items), key=self._rank):
            kinds.setdefault(self._kind_of(item), []).append(item)
        examples = [item for kind in kinds.values() for item in kind]
        telling = [item for item in examples if not DEGENERATE.search(self._finding(item).case)]
        if len(telling) < ENOUGH:  # an open task has one check
            return None

        @cache
        def refuted(program: Variant) -> bool:
            """Return whether it fails a check that the learner's program passes."""
            return any(self._of(program, item) for item in self.items if not self.failures[item.name])

        @cache
        def equal(item: pytest.Item, program: Variant) -> bool:
            failure = self.failures[item.name]
            return failure is not None and failure.equals_seen(self._of(program, item))

        def alone(item: pytest.Item, program: Variant) -> bool:
            rivals = (v for v in wrong if v not in program.mistakes and not refuted(v))
            return equal(item, program) and not any(equal(item, rival) for rival in rivals)

        def explains(item: pytest.Item, program: Variant) -> bool:
            sisters = (each for each in kinds[self._kind_of(item)] if self._of(program, each))
            if not (alone(item, program) and all(equal(each, program) for each in sisters)) or refuted(program):
                return False
            failure = self.failures[item.name]
            if kind_of(failure) is Kind.NO_ERROR and program not in found.showing:
                return False  # whatever the program does instead of raising
            pairs = ((self.failures[each.name], self._of(program, each)) for each in examples)
            raised = failure.stopped if failure and not failure.has_sizes_of(self._of(program, item)) else None
            if raised and not all(stop_alike(*pair, raised) for pair in pairs):
                return False
            enough = max(ENOUGH, len(telling) // PART + 1) if failure and failure.is_in_words else ENOUGH
            return len([*itertools.islice((each for each in telling if equal(each, program)), enough)]) == enough

        first = {self._kind_of(item): item for item in reversed(telling)}  # of each kind
        one = explained(sorted(first.values(), key=self._rank)[:CASES], found.likely, explains)
        failure = self.failures[one[0].name] if one else None
        return (failure, one[1]) if one and failure else None

    def _is_example(self, item: pytest.Item) -> bool:
        """Return whether a check failed, against an oracle, in a case that a learner can look at."""
        failure = self.failures[item.name]
        return failure is not None and not (failure.finding.swept or failure.finding.indirect)

    def _rank(self, item: pytest.Item) -> Any:
        return self._finding(item).rank()

    def _finding(self, item: pytest.Item) -> Finding:
        failure = self.failures[item.name]
        assert failure
        return failure.finding

    def _kind_of(self, item: pytest.Item) -> tuple[str, Kind | None]:
        """Return the test function of a check, and in which way it has failed."""
        return item.name.partition("[")[0], kind_of(self.failures[item.name])

    def _of(self, program: Variant, item: pytest.Item) -> Failure | None:
        """Return how a check fails on a known program, found out once."""
        key = program.name, item.name
        if key not in self.known:
            with installed(self.task.program, program.program):
                self.known[key] = self.run(item)
        return self.known[key]


InTime = Callable[[Callable[[float], Diagnosis]], Diagnosis]  # what a search finds in the CPU time that it is given


def diagnoses(checks: Checks, package: Path, in_time: InTime) -> Iterator[Diagnosis]:
    """Yield what is known of a failing task, and again with what is found later: a search may end the process."""
    try:
        subject = program(checks.task.program)
    except (NotImportable, AttributeError):  # the file cannot be imported, or the function is gone
        yield Diagnosis()
        return
    found = in_time(partial(_named, checks, subject, package))
    yield found
    if found.is_vague and package == LEARNER:
        small = [lambda: checks.changes.method(), lambda: checks.changes.line()] * checks.task.target.is_python
        for search in [*[checks.seen] * (not found.claims), *small]:
            if more := in_time(partial(_claimed, search)).claims:
                yield found._replace(claims=(*found.claims, *more))
            if search == checks.seen:  # the others each say more exactly where
                found = found._replace(claims=(*found.claims, *more))


def _claimed(search: Callable[[], Claim | None], until: float) -> Diagnosis:
    return Diagnosis((claim,) if (claim := search()) else ())


def _named(checks: Checks, subject: Program, package: Path, until: float) -> Diagnosis:
    """Return the known mistakes of a failing task, or the tasks whose mistakes it suffers from."""
    task, course = checks.task, load_course()
    right = {task.id for task in progress.on_reference()}
    needs = [course.task(need) for need in course.needs(task.id) if need not in right]
    if package == LEARNER and holds_stub(task, package) and (found := checks.of_stub(needs)).culprits:
        return found
    known = load_variants(task)
    return checks.confirm(candidates(known, subject, needs, until), needs, known.wrong_programs)


def _claim(program: Variant, here: bool = False, alike: bool = False) -> Claim:
    facts, questions, names = map(list, zip(*((m.fact, m.question, m.name) for m in program.mistakes), strict=True))
    return Claim(facts, questions, here, names, alike=alike)
