"""What a learner reads after grading: one screen, the first thing to mend first."""

import ast
import os
import sys
from collections.abc import Sequence

import click

from .findings import Finding, Kind
from .paths import BOOK, ROOT
from .registry import Day, Target, Task, load_course
from .results import TaskResult

MARKS = {"passed": ("✓", "green"), "failed": ("✗", "red"), "not started": ("○", "yellow"), "waiting": ("⇢", "yellow")}


def say(text: str = "", *, colour: str | None = None, bold: bool = False) -> None:
    """Print a line; coloured only on a terminal, and never against NO_COLOR."""
    use_colour = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    click.echo(click.style(text, fg=colour, bold=bold or None) if use_colour else text)


def report_day(day: Day, results: Sequence[TaskResult], package: str) -> None:
    """Print the verdicts of one day."""
    say(f"Week {day.week}, day {day.number}: {day.title}  ({package})", bold=True)
    say()
    failing = {r.task.id for r in results if r.status == "failed"}
    for result in results:
        _report_task(result, package, [need for need in result.task.needs if need in failing])
    say()
    passed = sum(r.status == "passed" for r in results)
    line = f"{passed} of {len(results)} task{'s' * (len(results) > 1)} passed."
    if following := next((r.task for r in results if r.status != "passed"), None):
        line += f" Next: {following.id} {following.title}."
    say(line, colour="green" if passed == len(results) else None)


def _report_task(result: TaskResult, package: str, failing_needs: list[str]) -> None:
    task, finding = result.task, result.finding
    mark, colour = MARKS[result.status]
    verdict: str = result.status
    if verdict == "passed":
        verdict = f"passed, {result.checks} check{'s' * (result.checks > 1)}"
    elif verdict == "failed" and result.passed + result.failed == result.checks:
        verdict = f"failed, {result.failed} of {result.checks} checks"
    elif verdict == "waiting" and finding:
        verdict = f"waits for {finding.blocker} {load_course().task(finding.blocker).title}"
    failing_needs = failing_needs if result.status == "failed" else []
    if failing_needs:
        verdict += f"; mend {failing_needs[0]} first, this task uses it"
    say(f"{mark} {task.id} {task.title}: {verdict}", colour=colour, bold=result.status == "failed")
    if result.status == "failed" and finding and not failing_needs:
        _report_finding(finding)
        for _, fact, question in result.mistakes if finding.kind != Kind.FORBIDDEN else ():
            say(f"    Your output equals what you get when {fact}.", bold=True)
            say(f"    {question}")
    if result.status in ("failed", "not started") and not failing_needs:
        _report_prints(*result.prints)
        say(f"    code {where(task.targets[0], package)} · read {chapter(task)} · hint: pdm run hint {task.id}")


def _report_finding(finding: Finding) -> None:
    say(f"    {finding.headline}")
    for line in finding.lines:
        say(f"      {line}")
    if finding.case:
        say(f"      case      {finding.case}")
    shown = finding.frames if len(finding.frames) <= 4 else (*finding.frames[:2], "...", *finding.frames[-2:])
    for frame in shown:
        say(f"      {frame}")


def _report_prints(count: int, lines: Sequence[str]) -> None:
    if count:
        say(f"    your code printed {count} line{'s' * (count > 1)}{', the first of them' * (count > len(lines))}:")
        for line in lines:
            say(f"      | {line}")


def where(target: Target, package: str) -> str:
    """`src/tiny_llm/basics.py:12`, the line of the target's definition as the file is now."""
    file = ROOT / package / f"{target.module}.py"
    try:
        scope: ast.AST = ast.parse(file.read_bytes())
        for part in target.name.split("."):
            scope = next(node for node in ast.iter_child_nodes(scope) if getattr(node, "name", None) == part)
        return f"{package}/{file.name}:{scope.lineno}"  # type: ignore[attr-defined]
    except (OSError, SyntaxError, ValueError, StopIteration):
        return f"{package}/{file.name}"


def chapter(task: Task) -> str:
    """The path of the task's chapter."""
    return (BOOK / "src" / load_course().day(task.week, task.day).chapter).relative_to(ROOT).as_posix()
