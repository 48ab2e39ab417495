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
    stub: bool = False  # nobody has finished it
    borrowed: bool = False
    on_reference: tuple[str, ...] = ()  # the tasks it uses that are borrowed

    @property
    def status(self) -> Status:
        """A waiting task stopped at another task's stub; one that is not run was stopped before its last check.

        So is one that uses what cannot be run: a task that does not end, or another file that cannot be imported. A
        stub is not started, whatever others did. A borrowed task is not graded.
        """
        finding = self.finding
        if self.borrowed:
            return "borrowed"
        if finding is None and self.checks and self.passed == self.checks:
            return "passed"
        if finding and finding.blocker == self.task.id:
            return "not started"
        if finding and not (finding.blocker or finding.place):
            return "failed"
        if self.stub:
            return "not started"
        if finding and finding.kind == Kind.NOT_STARTED:
            return "waiting"
        return "failed" if finding and self.is_in(finding.file) else "not run"

    @property
    def suffers(self) -> bool:
        """Whether what keeps it from passing is told elsewhere: a task it uses, or a file that cannot be imported."""
        others = self.finding and (self.finding.place or self.finding.blocker not in ("", self.task.id))
        return bool(self.culprits) or (bool(others) and self.status in ("failed", "not run"))

    @property
    def first(self) -> str:
        """The task to see to before this one can pass: itself, or one that it uses."""
        blocker = self.finding.blocker if self.finding else ""
        return (*self.culprits, blocker or self.task.id)[0]

    def is_in(self, file: str) -> bool:
        """Whether a part of the task is written in a file, `src/tiny_llm/basics.py`."""
        return any(file.endswith(f"/tiny_llm/{target.module}.py") for target in self.task.targets)

    def add(self, finding: Finding) -> None:
        """Keep the finding if it is to be told before the one there is."""
        if self.finding is None or finding.rank() < self.finding.rank():
            self.finding = finding
