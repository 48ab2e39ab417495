"""A verdict as exported: points, and text without terminal or markup control characters."""

from typing import NamedTuple

from ...course.entities import Day, Task
from ...course.findings import few
from ...course.registry import load_course
from ...course.results import TaskResult
from ...learner import attempts
from ...learner.attempts import Attempt


class Verdict(NamedTuple):
    """One task as exported, with the keys of our own JSON; its text has no control characters."""

    task: Task
    status: str  # as TaskResult has it
    points: int
    max_points: int  # 0 if it cannot be run or is optional (its points then come on top)
    checks: int  # that can be run here
    checks_passed: int
    message: str  # one line on the fault or on what cannot be run here; empty if all passed
    details: str
    prints: str
    checks_not_run_here: int = 0
    attempts: tuple[Attempt, ...] | None = None  # None unless requested


class GradedDay(NamedTuple):
    """The verdicts of a day's tasks, in the order of the course."""

    day: Day
    verdicts: tuple[Verdict, ...]
    seconds: float


def verdict_of(result: TaskResult, worth: int, borrowed: bool, why: str, history: bool = False) -> Verdict:
    """Return the exported form of a result, with the attempts if `history`; `why` says why a task was not run."""
    status = "borrowed" if borrowed else str(result.status)
    count, lines = result.prints
    more = [f"... and {count - len(lines)} lines more"] if count > len(lines) else []
    return Verdict(
        task=result.task,
        status=status,
        points=worth if status == "passed" else 0,
        max_points=0 if status == "not run here" or result.task.optional else worth,
        checks=result.checks,
        checks_passed=result.passed,
        message=clean(_message(result, status, why)),
        details=clean("\n".join(_details(result))),
        prints=clean("\n".join([*lines, *more])),
        checks_not_run_here=result.absent,
        attempts=tuple(attempts.of_task(result.task)) if history else None,
    )


def _message(result: TaskResult, status: str, why: str) -> str:
    finding, task = result.finding, result.task
    match status:
        case "passed" | "not run here":
            return result.not_here
        case "borrowed":
            return f"borrowed, no points; to return it: pdm run return {task.id}"
        case "not started":
            return f"not started; to start: pdm run test {task.id}"
        case "waiting" if finding:
            return f"waits for {load_course().task(finding.blocker).label}"
        case "failed" if result.culprits:
            return f"fails because of {' and '.join(result.culprits)}, which it uses"
        case "failed" if finding:
            return finding.headline
        case "not run" if finding:
            why = finding.headline
    return f"not run: {why}"


def _details(result: TaskResult) -> list[str]:
    finding = result.finding
    if finding is None or result.status != "failed":
        return []
    facts = [line for claim in result.claims for line in (claim.said(finding.kind), *claim.questions)]
    case = [f"case: {finding.case}"] if finding.case else []
    count = f"{result.passed} of {result.checks} check{'s' * (result.checks != 1)} passed"
    return [finding.headline, *finding.lines, *case, *few(finding.frames), *facts, count]


def clean(text: str) -> str:
    """Return the text with control characters, and those that XML 1.0 forbids, escaped like \\x1b."""

    def harmless(c: str) -> bool:  # beyond `isprintable`: other spaces, and the joiners of emoji
        return c.isprintable() or c in "\t\n\u200c\u200d" or (ord(c) >= 0xA0 and c.isspace())

    return "".join(c if harmless(c) else c.encode("unicode_escape").decode() for c in text)
