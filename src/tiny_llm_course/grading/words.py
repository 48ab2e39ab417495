"""A verdict in words, and what shows that a finding is true."""

from collections.abc import Sequence
from functools import partial

from ..course.findings import Finding, Kind
from ..course.registry import load_course
from ..course.results import TaskResult
from ..terminal.screen import say

Line = partial[None]  # prints it


def verdict(result: TaskResult) -> str:
    """A task's status in words, with its checks counted."""
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
            return f"failed, stopped after {result.passed + result.failed} of {result.checks} checks{failed}"
        case status:
            return f"{status}, optional" if result.left_out else status


def facts(finding: Finding) -> list[Line]:
    """What shows that a finding is true, below its headline."""
    lines = [
        partial(say, f"      {line}", cut=finding.kind in (Kind.NOT_BUILT, Kind.NO_IMPORT)) for line in finding.lines
    ]
    if finding.case:
        lines.append(partial(say, f"      case      {finding.case}"))
    return lines + [partial(say, f"      {frame}", cut=True) for frame in few(finding.frames)]


def few(frames: Sequence[str]) -> list[str]:
    """The outermost and innermost lines of a long way to an error."""
    return list(frames) if len(frames) <= 4 else [*frames[:2], "...", *frames[-2:]]
