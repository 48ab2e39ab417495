"""What a learner reads after grading: one screen, the first thing to mend first."""

from collections.abc import Iterable, Mapping, Sequence

from .findings import Finding, Kind
from .functions import definition_line
from .paths import BOOK, ROOT
from .registry import Day, Target, Task, load_course
from .results import TaskResult
from .screen import say

MARKS = {
    "passed": ("✓", "green"),
    "failed": ("✗", "red"),
    "not started": ("○", "yellow"),
    "waiting": ("~", "yellow"),
    "not run": ("~", "yellow"),
    "borrowed": ("⇢", "yellow"),
}


def report_heading(day: Day, package: str, gap: bool = False) -> None:
    """Print which day is graded; at once, as grading can take a while. `gap` keeps it apart from the day before."""
    if gap:
        say()
    say(f"Week {day.week}, day {day.number}: {day.title}  ({package})", bold=True)
    say()


def faults(results: Iterable[TaskResult]) -> dict[str, Finding]:
    """The files that cannot be imported, for which some of these tasks could not be run: by their places, told once."""
    found = [r.finding for r in results if not r.borrowed and r.finding and r.finding.place]
    return {finding.place: finding for finding in found}


def report_fault(fault: Finding) -> None:
    """Print why a file cannot be imported."""
    say(f"✗ {fault.headline}", colour="red", bold=True)
    _report_facts(fault)


def report_results(results: Sequence[TaskResult], package: str, broken: Mapping[str, Finding]) -> None:
    """Print the verdicts of a day, after the `faults` that have not been told yet."""
    for fault in broken.values():
        report_fault(fault)
    for result in results:
        report_task(result, package)
    graded = [result for result in results if not result.borrowed]
    if used := {need for result in graded for need in result.on_reference}:
        in_order = [task.id for task in load_course().tasks() if task.id in used]
        say(f"⇢ on the reference, as you have borrowed them: {', '.join(in_order)}", colour="yellow")
    say()
    passed = sum(r.status == "passed" for r in results)
    counted = f"{passed} of {len(results)} task{'s' * (len(results) > 1)} passed."
    line = counted if results else "Nothing is written yet."
    mend = [f"mend {place}" for place in {**broken, **faults(results)}]
    unfinished = [load_course().task(r.first).label for r in results if r.status not in ("passed", "borrowed")]
    if following := [*mend, *unfinished]:
        line += f" Next: {following[0]}."
    elif not graded:
        line += f" Next: pdm run return {' '.join(r.task.id for r in results)}"
    say(line, colour="green" if results and passed == len(results) else None)


def report_task(result: TaskResult, package: str) -> None:
    """Print the verdict of a task, and what there is to say about it."""
    task, finding = result.task, result.finding
    mark, colour = MARKS[result.status]
    say(f"{mark} {task.label}: {verdict(result)}", colour=colour, bold=result.status == "failed")
    if result.status not in ("failed", "not started") or result.suffers:
        return
    if finding and result.status == "failed":
        _report_finding(finding)
        if finding.kind != Kind.FORBIDDEN:
            for _, fact, question in result.mistakes:
                say(f"    Your output equals what you get when {fact}.", bold=True)
                say(f"    {question}")
        _report_prints(*result.prints, result.passed + result.failed)
    say(f"    code {where(task.targets[0], package)} · read {chapter(task)} · hint: pdm run hint {task.id}")


def verdict(result: TaskResult) -> str:
    """A task's status in words, with its checks counted."""
    count = f"{result.failed} of {result.checks} checks"
    match result.status:
        case "passed":
            return f"passed, {result.checks} check{'s' * (result.checks > 1)}"
        case "waiting" if result.finding:
            return f"waits for {load_course().task(result.finding.blocker).label}"
        case "not run" if result.finding and result.finding.blocker:
            return f"not run, {result.finding.headline}"
        case "not run" if result.finding:
            return f"not run, {result.finding.file} cannot be imported"
        case "not run":
            return f"not run, {result.passed} of {result.checks} checks passed before the tests were stopped"
        case "failed" if result.culprits:
            return f"failed, {count}; this task is right, {' and '.join(result.culprits)} which it uses is not"
        case "borrowed":
            return f"borrowed (pdm run return {result.task.id} to write it yourself)"
        case "failed" if result.finding and result.finding.place:
            return f"failed, {result.finding.file} cannot be imported"
        case "failed" if result.passed + result.failed == result.checks:
            return f"failed, {count}"
        case status:
            return status


def _report_finding(finding: Finding) -> None:
    say(f"    {finding.headline}")
    _report_facts(finding)


def _report_facts(finding: Finding) -> None:
    for line in finding.lines:
        say(f"      {line}", cut=finding.kind == Kind.NO_IMPORT)
    if finding.case:
        say(f"      case      {finding.case}")
    for frame in few(finding.frames):
        say(f"      {frame}", cut=True)


def few(frames: Sequence[str]) -> list[str]:
    """The outermost and innermost lines of a long way to an error."""
    return list(frames) if len(frames) <= 4 else [*frames[:2], "...", *frames[-2:]]


def _report_prints(count: int, lines: Sequence[str], checks: int) -> None:
    if count:
        first = f", the first {len(lines)}" * (count > len(lines))
        say(f"    your code printed {count} line{'s' * (count > 1)} in {checks} check{'s' * (checks != 1)}{first}:")
        for line in lines:
            say(f"      | {line}", cut=True)


def where(target: Target, package: str) -> str:
    """`src/tiny_llm/basics.py:12`, the line of the target's definition as the file is now."""
    line = definition_line(ROOT / package, target)
    return f"{package}/{target.module}.py" + (f":{line}" if line else "")


def chapter(task: Task) -> str:
    """The path of the task's chapter."""
    return (BOOK / "src" / load_course().day(task.week, task.day).chapter).relative_to(ROOT).as_posix()
