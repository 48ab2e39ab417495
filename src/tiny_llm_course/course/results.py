"""What grading finds out about a task, and its verdict in words."""

import dataclasses
from typing import Literal

from .entities import Task
from .findings import Claim, Finding, Kind
from .registry import load_course
from .requirements import in_words

Status = Literal["passed", "failed", "not started", "waiting", "not run", "not run here", "borrowed"]
SETTLED = ("passed", "not run here", "borrowed")  # nothing left to do on this machine


@dataclasses.dataclass
class TaskResult:
    """What was found about one task."""

    task: Task
    checks: int = 0  # selected that can be run here, of which ...
    passed: int = 0
    failed: int = 0
    absent: int = 0  # selected that cannot be run here, as they need ...
    missing: tuple[str, ...] = ()  # these words of `requirements`
    finding: Finding | None = None  # the one to report: lowest kind, then smallest case
    failing: tuple[str, ...] = ()  # what its failing checks are about, in words
    claims: tuple[Claim, ...] = ()  # its mistakes, as far as they are known
    culprits: tuple[str, ...] = ()  # tasks it uses, if it passes (or is a stub) with the solution's in their place
    failing_need: str = ""  # a task that it uses whose own checks fail, if nothing better is known
    prints: tuple[int, tuple[str, ...]] = (0, ())
    breakpoint: str = ""  # the line that calls breakpoint(): `src/tiny_llm/basics.py:12`
    code: str = ""  # the fingerprint of the code, if all of its checks were selected
    stopped: str = ""  # why its process ended before the last check: "time limit"
    stub: bool = False  # not finished
    borrowed: bool = False
    on_reference: tuple[str, ...] = ()  # the tasks it uses that are borrowed
    road: str = ""  # the attempts before, if this verdict turns to passed

    @property
    def status(self) -> Status:
        """The task's status; what can be checked here decides whether it has passed.

        A waiting task stopped at another task's stub. One that is not run was stopped before its last check, uses what
        cannot be run (a task that does not end, a file that cannot be imported), or has a wrong check. A stub is not
        started, whatever other tasks did. A borrowed task is not graded.
        """
        finding = self.finding
        if self.borrowed:
            return "borrowed"
        if self.missing and not self.checks:
            return "not run here"
        if finding is None and self.checks and self.passed == self.checks:
            return "passed"
        if finding and finding.kind == Kind.COURSE:
            return "not run"
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
    def not_here(self) -> str:
        """What cannot be run here and why: "not run here: needs Metal"; empty if everything can."""
        if not self.missing:
            return ""
        if not self.checks:
            return f"not run here: needs {in_words(self.missing)}"
        plural = self.absent > 1
        return f"{self.absent} check{'s' * plural} not run here: need{'s' * (not plural)} {in_words(self.missing)}"

    @property
    def left_out(self) -> bool:
        """Whether it is optional and not started."""
        return self.task.optional and self.status == "not started"

    @property
    def suffers(self) -> bool:
        """Whether the cause is reported elsewhere: a task that it uses, or a file that cannot be imported."""
        others = self.finding and (self.finding.place or self.finding.blocker not in ("", self.task.id))
        return bool(self.culprits) or (bool(others) and self.status in ("failed", "not run"))

    @property
    def first(self) -> str:
        """The task to fix first: itself, or one that it uses."""
        blocker = self.finding.blocker if self.finding else ""
        return (*self.culprits, self.failing_need or blocker or self.task.id)[0]

    def is_in(self, file: str) -> bool:
        """Return whether a part of the task is written in a file, `src/tiny_llm/basics.py`."""
        return file.endswith(f"/tiny_llm/{self.task.target.file}")

    def add(self, finding: Finding) -> None:
        """Keep the finding if it ranks before the present one, and always what its check is about."""
        self.failing = (*dict.fromkeys((*self.failing, finding.named)),)
        if self.finding is None or finding.rank() < self.finding.rank():
            self.finding = finding


def verdict(result: TaskResult) -> str:
    """Return a task's status in words, with its checks counted."""
    count = f"{result.failed} of {result.checks} check{'s' * (result.checks > 1)} failed"
    match result.status:
        case "passed":
            checks = f"passed, {result.checks} check{'s' * (result.checks > 1)}"
            return f"{checks}; {result.not_here}" if result.not_here else checks
        case "not run here":
            return result.not_here
        case "waiting" if result.finding:
            return f"waits for {load_course().task(result.finding.blocker).label}"
        case "not run" if result.finding and (result.finding.blocker or result.finding.kind == Kind.COURSE):
            return f"not run, {result.finding.headline}"
        case "not run" if result.finding:
            return f"not run, {result.finding.barred}"
        case "not run":
            return f"not run, {result.passed} of {result.checks} checks passed before the tests were stopped"
        case "failed" if result.culprits:
            are = "are" if len(result.culprits) > 1 else "is"
            return f"{count}; this task is right, {' and '.join(result.culprits)} which it uses {are} not"
        case "not started" if result.culprits:
            return f"not started, and would wait for {load_course().task(result.first).label}, which is not right"
        case "borrowed":
            return f"borrowed (pdm run return {result.task.id} to write it yourself)"
        case "failed" if result.finding and result.finding.place:
            return f"failed, {result.finding.barred}"
        case "failed" if result.passed + result.failed == result.checks:
            return count
        case "failed" if result.checks:
            failed = f", {result.failed} of which failed" if result.failed else ""
            reason = f" ({result.stopped})" if result.stopped else ""
            return f"failed, stopped after {result.passed + result.failed} of {result.checks} checks{reason}{failed}"
        case status:
            return f"{status}, optional" if result.left_out else status
