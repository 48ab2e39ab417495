"""The command for classes: grade, and write the verdicts for another program. `pdm run export --format junit`."""

import datetime
import time
from dataclasses import replace
from pathlib import Path

import click

from ...course.nouns import Day, Task
from ...course.registry import UsageError
from ...course.results import TaskResult
from ...course.selection import by_day, selected
from ...grading.day import ExitState, grade_day
from ...learner import attempts, progress
from ...terminal.screen import say
from .. import out_file
from ..options import OUT_FILE, names_of_tasks
from . import formats, provenance
from .verdicts import GradedDay, verdict

FORMS = ("junit", "json", "gradescope")
POINTS = ("difficulty", "minutes")


@click.command(short_help="Write verdicts for a class: JUnit, JSON, Gradescope.")
@names_of_tasks
@click.option("--format", "form", type=click.Choice(FORMS), help="What to write.")
@click.option("--out", type=OUT_FILE, help="A file; default: stdout.")
@click.option(
    "--points", type=click.Choice(POINTS), default=POINTS[0], show_default=True, help="What a passed task counts."
)
@click.option("--history", is_flag=True, help="Add the attempts at each task, in json: see above.")
def export(
    names: tuple[str, ...],
    form: str | None,
    out: Path | None,
    week: int | None,
    day: int | None,
    points: str,
    history: bool,
) -> int:
    """Grade the course (or the named tasks, days or weeks) and write the verdicts for a class.

    A task counts its difficulty or, with --points minutes, the minutes it is meant to take: all of them once
    it has passed, nothing before, and nothing if it is borrowed; one that cannot be run here counts neither
    for nor against, and the points of an optional task come on top. Hashes of the graded files and of the tests are
    included. The exit code is 0 when the verdicts are written, whatever they are.

    What pdm run history shows is in no export, unless you say --history: then the json has the attempts at each task
    that are remembered, each with its time, verdict, message, the known mistakes that were named, and your code.
    """
    if form is None:
        raise UsageError(f"Say which format ({', '.join(FORMS)}):", "pdm run export --format junit --out verdicts.xml")
    if history and form != "json":
        raise UsageError(f"{form} has no place for attempts; json has:", "pdm run export --format json --history")
    if out is not None:
        out_file.must_be_writable(out, "export", formats.is_export)
    tasks = selected(names, week, day, f"export --format {form}")
    begun = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    borrowed = progress.borrowed()
    exits = ExitState()
    days = [_graded(the_day, its_tasks, points, borrowed, exits) for the_day, its_tasks in by_day(tasks)]
    if history:
        days = [_with_attempts(graded) for graded in days]
    text = formats.FORMATS[form](days, provenance.of(begun.isoformat()))
    if out is None:
        click.echo(text, nl=False)
    else:
        out_file.write(out, text)
    verdicts = [verdict for graded in days for verdict in graded.verdicts]
    score, most = sum(v.points for v in verdicts), sum(v.max_points for v in verdicts)
    written = f"{out}: " if out else ""
    say(f"{written}{formats.counted(verdicts)}, {score} of {most} point{'s' * (most != 1)}", err=True)
    return 0


def _with_attempts(graded: GradedDay) -> GradedDay:
    verdicts = (replace(verdict, attempts=tuple(attempts.of_task(verdict.task))) for verdict in graded.verdicts)
    return replace(graded, verdicts=tuple(verdicts))


def _graded(day: Day, tasks: list[Task], points: str, borrowed: frozenset[str], exits: ExitState) -> GradedDay:
    started = time.monotonic()
    why = "the tests were stopped before"
    try:
        results = {result.task.id: result for result in grade_day(day, tasks=tasks, exits=exits)}
    except UsageError as error:  # the day's tests are damaged or gone; the other days still count
        results, why = {}, str(error)
    seconds = time.monotonic() - started
    # A task without a single check has not passed anything.
    found = [results.get(task.id, TaskResult(task)) for task in tasks]
    verdicts = [verdict(r, int(getattr(r.task, points)), r.task.id in borrowed, why) for r in found]
    return GradedDay(day, tuple(sorted(verdicts, key=lambda v: v.task.place)), seconds)
