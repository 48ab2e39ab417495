"""What may be told of a task that has failed: nothing that its own checks contradict.

The probes say which known program the learner's may be. The task's checks are then run on that program too, and the
claim is withheld unless it fails where the learner's fails, in the same way, and nowhere else. The failure to show is
one that both have. A task that is used is blamed only if all checks pass with the solution's in its place.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import pytest

from ..course.claims import Claim
from ..course.findings import Finding, Kind
from ..course.nouns import Task
from ..programs.packages import installed
from ..testkit.naming import Diagnosis, culprits, solved
from ..testkit.outcomes import Stopped
from ..testkit.variants import Variant


@dataclasses.dataclass(frozen=True)
class Failure:
    """How a check fails: what is told of it, and the exception, if that is not one of the checks' own."""

    finding: Finding
    stopped: Stopped | None = None

    def like(self, other: "Failure | None") -> bool:
        """Whether another program fails in the same case, by the same kind or the same stop."""
        if other is None:
            return False
        mine, theirs = self.finding, other.finding
        return (mine.kind, mine.case, self.stopped) == (theirs.kind, theirs.case, other.stopped)

    def equals(self, other: "Failure | None") -> bool:
        """Whether another program, beyond that, has the same numbers there."""
        if other is None or not self.like(other):
            return False
        same = (self.finding.headline, self.finding.lines) == (other.finding.headline, other.finding.lines)
        return same or self.stopped is not None


Failures = Mapping[str, Failure | None]  # by check; None if it passes


@dataclasses.dataclass(frozen=True)
class Told:
    """The mistakes to name or the tasks to blame, and the failure that shows it, if it is not the first one to tell."""

    claims: tuple[Claim, ...] = ()
    culprits: tuple[Task, ...] = ()
    finding: Finding | None = None


@dataclasses.dataclass(frozen=True)
class Checks:
    """A task's checks, which `run` runs one at a time, and how the learner's program has failed them."""

    task: Task
    items: Sequence[pytest.Item]
    failures: Failures
    run: Callable[[pytest.Item], Failure | None]

    def told(self, found: Diagnosis, needs: Sequence[Task]) -> Told:
        """What of a diagnosis may be told."""
        if found.culprits:
            with solved(found.culprits):
                proven = not any(map(self.run, self.items))
            return Told(culprits=found.culprits) if proven else Told()
        shown = {program: self._shown(program, needs, found.here) for program in found.programs}
        claims = [
            Claim([m.fact for m in program.mistakes], [m.question for m in program.mistakes], found.here)
            for program, failure in shown.items()
            if failure
        ]
        findings = [failure.finding for failure in shown.values() if failure]
        return Told(tuple(claims), finding=min(findings, key=Finding.rank, default=None))

    def of_a_stub(self, needs: Sequence[Task]) -> Told:
        """What to tell of a stub that was not reached: for which tasks that it uses it would wait."""
        item = next(item for item in self.items if self.failures[item.name])

        def reached() -> bool:
            failure = self.run(item)
            return failure is not None and failure.finding.blocker == self.task.id

        at_fault = culprits(reached, needs)
        finding = Finding(Kind.NOT_STARTED, f"not started: {self.task.label}", blocker=self.task.id)
        with solved(at_fault):
            return Told(culprits=at_fault, finding=finding) if at_fault and reached() else Told()

    def _shown(self, program: Variant, needs: Sequence[Task], here: bool) -> Failure | None:
        """The failure to show with the claim that the learner's program is a known one; None if there is none."""
        with installed(self.task.program, program.program):
            theirs = {item.name: self.run(item) for item in self.items}
        agree = _fails_alike if not here else _fails_at_least
        if not agree(self.failures, theirs):
            if not needs:
                return None
            with solved(needs):  # the known program uses the solution's, so let the learner's use them too
                if not agree({item.name: self.run(item) for item in self.items}, theirs):
                    return None
        shared = [f for name, f in self.failures.items() if f and (f.equals if here else f.like)(theirs[name])]
        if here:
            shared = [f for f in shared if self._alike_in_its_kind(f, theirs)]
        return min(shared, key=lambda failure: failure.finding.rank(), default=None)

    def _alike_in_its_kind(self, failure: Failure, theirs: Failures) -> bool:
        """Whether both programs fail alike in all cases of one kind, which are those of one test function."""
        names = {item.name.partition("[")[0] for item in self.items if self.failures[item.name] is failure}
        mine = {name: f for name, f in self.failures.items() if name.partition("[")[0] in names}
        return _fails_alike(mine, {name: theirs[name] for name in mine})


def _fails_alike(mine: Failures, theirs: Failures) -> bool:
    """Whether two programs fail the same checks, each by the same kind of failure."""
    return all(_kind(failure) == _kind(theirs[name]) for name, failure in mine.items())


def _fails_at_least(mine: Failures, theirs: Failures) -> bool:
    """Whether the first program fails wherever the second one does."""
    return all(failure or not theirs[name] for name, failure in mine.items())


def _kind(failure: Failure | None) -> Kind | None:
    return failure.finding.kind if failure else None
