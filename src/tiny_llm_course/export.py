"""The command for classes: grade, and write the verdicts for another program. `pdm run export --format junit`."""

import dataclasses
import datetime
import os
import time
from pathlib import Path

import click

from . import progress
from .grading import Ends, grade_day
from .options import names_of_tasks
from .registry import Day, Task, UsageError, load_course
from .report import few
from .results import TaskResult
from .screen import say
from .selection import by_day, selected

FORMS = ("junit", "json", "gradescope")
POINTS = ("difficulty", "minutes")
# What XML 1.0 cannot hold, and what a terminal or a web page would act on.
KEPT_CONTROLS = "\t\n"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One task as it is exported; every text is free of control characters."""

    task: Task
    status: str  # passed, failed, not started, waiting, not run, borrowed
    points: int
    max_points: int
    checks: int
    passed: int
    message: str  # what is wrong, in one line; empty if it passed
    details: str
    prints: str


@dataclasses.dataclass(frozen=True)
class GradedDay:
    """The verdicts of a day's tasks, in the order of the course."""

    day: Day
    verdicts: tuple[Verdict, ...]
    seconds: float


@click.command(short_help="Write verdicts for a class: JUnit, JSON, Gradescope.")
@names_of_tasks
@click.option("--format", "form", type=click.Choice(FORMS), help="What to write.")
@click.option("--out", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="A file; default: stdout.")
@click.option(
    "--points", type=click.Choice(POINTS), default=POINTS[0], show_default=True, help="What a passed task counts."
)
def export(
    names: tuple[str, ...], form: str | None, out: Path | None, week: int | None, day: int | None, points: str
) -> int:
    """Grade the course (or the named tasks, days or weeks) and write the verdicts for a class.

    A task counts its difficulty or, with --points minutes, the minutes it is meant to take: all of them once
    it has passed, nothing before, and nothing if it is borrowed. Hashes of the graded files and of the tests are
    included. The exit code is 0 when the verdicts are written, whatever they are.
    """
    from . import export_formats, provenance

    if form is None:
        raise UsageError(f"Say which format ({', '.join(FORMS)}):", "pdm run export --format junit --out verdicts.xml")
    if out is not None and not (out.parent.is_dir() and os.access(out.parent, os.W_OK)):
        raise UsageError(f"{out} cannot be written: {out.parent} is not a folder that can be written to.")
    tasks = selected(names, week, day, f"export --format {form}")
    begun = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    borrowed = progress.borrowed()
    ends = Ends()
    days = [_graded(the_day, its_tasks, points, borrowed, ends) for the_day, its_tasks in by_day(tasks)]
    text = export_formats.FORMATS[form](days, provenance.of(begun.isoformat()))
    if out is None:
        click.echo(text, nl=False)
    else:
        try:
            out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{out} cannot be written: {error.strerror}.") from error
    verdicts = [verdict for graded in days for verdict in graded.verdicts]
    passed = sum(v.status == "passed" for v in verdicts)
    score, most = sum(v.points for v in verdicts), sum(v.max_points for v in verdicts)
    counted = f"{passed} of {len(verdicts)} task{'s' * (len(verdicts) != 1)} passed"
    written = f"{out}: " if out else ""
    say(f"{written}{counted}, {score} of {most} point{'s' * (most != 1)}", err=True)
    return 0


def _graded(day: Day, tasks: list[Task], points: str, borrowed: frozenset[str], ends: Ends) -> GradedDay:
    started = time.monotonic()
    why = "the tests were stopped before"
    try:
        results = {result.task.id: result for result in grade_day(day, tasks=tasks, ends=ends)}
    except UsageError as error:  # the day's tests are damaged or gone; the other days still count
        results, why = {}, str(error)
    seconds = time.monotonic() - started
    # A task without a single check has not passed anything.
    found = [results.get(task.id, TaskResult(task)) for task in tasks]
    verdicts = [_verdict(r, int(getattr(r.task, points)), r.task.id in borrowed, why) for r in found]
    return GradedDay(day, tuple(sorted(verdicts, key=lambda v: [int(n) for n in v.task.id.split(".")])), seconds)


def _verdict(result: TaskResult, worth: int, borrowed: bool, why: str) -> Verdict:
    status = "borrowed" if borrowed else str(result.status)
    count, lines = result.prints
    more = [f"... and {count - len(lines)} lines more"] if count > len(lines) else []
    return Verdict(
        task=result.task,
        status=status,
        points=worth if status == "passed" else 0,
        max_points=worth,
        checks=result.checks,
        passed=result.passed,
        message=clean(_message(result, status, why)),
        details=clean("\n".join(_details(result))),
        prints=clean("\n".join([*lines, *more])),
    )


def _message(result: TaskResult, status: str, why: str) -> str:
    finding, task = result.finding, result.task
    match status:
        case "passed":
            return ""
        case "borrowed":
            return f"borrowed, no points; take it back: pdm run return {task.id}"
        case "not started":
            return f"not started; begin: pdm run test {task.id}"
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
    facts = [
        line for _, fact, ask in result.mistakes for line in (f"Your output equals what you get when {fact}.", ask)
    ]
    case = [f"case: {finding.case}"] if finding.case else []
    count = f"{result.passed} of {result.checks} checks passed"
    return [finding.headline, *finding.lines, *case, *few(finding.frames), *facts, count]


def clean(text: str) -> str:
    """The text with every character that XML 1.0 forbids, or that is a control, written as an escape like \\x1b."""
    return "".join(c if c.isprintable() or c in KEPT_CONTROLS or _plain(c) else _escape(c) for c in text)


def _plain(character: str) -> bool:
    """Not printable by Python's measure, and harmless: spaces of other kinds, the joiners of emoji."""
    return (ord(character) >= 0xA0 and character.isspace()) or character in "\u200c\u200d"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
