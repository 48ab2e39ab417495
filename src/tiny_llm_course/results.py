"""What grading finds out about a task."""

import dataclasses
from typing import Literal

from .findings import Finding, Kind
from .registry import Task

Status = Literal["passed", "failed", "not started", "waiting", "not run", "borrowed"]


@dataclasses.dataclass
class TaskResult:
    """What was found about one task."""

    task: Task
    checks: int = 0  # selected, of which ...
    passed: int = 0
    failed: int = 0
    finding: Finding | None = None  # the one to tell: first by kind, then by size of the case
    mistakes: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)  # name, fact, question
    culprits: tuple[str, ...] = ()  # the tasks it uses, if it is right with the solution's in their place
    prints: tuple[int, tuple[str, ...]] = (0, ())
    code: str = ""  # the fingerprint of the code, if all of its checks were to be run
    borrowed: bool = False
    on_reference: tuple[str, ...] = ()  # the tasks it uses that are borrowed

    @property
    def status(self) -> Status:
        """A waiting task stopped at another task's stub; one that is not run was stopped before its last check.

        A borrowed task is not graded.
        """
        if self.borrowed:
            return "borrowed"
        if self.finding is None:
            return "passed" if self.checks and self.passed == self.checks else "not run"
        if self.finding.kind == Kind.NOT_STARTED:
            return "not started" if self.finding.blocker == self.task.id else "waiting"
        return "failed"

    def add(self, finding: Finding) -> None:
        """Keep the finding if it is to be told before the one there is."""
        if self.finding is None or finding.rank() < self.finding.rank():
            self.finding = finding
