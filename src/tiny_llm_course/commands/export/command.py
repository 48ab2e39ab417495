"""`pdm run export --format junit`: grade, and export the verdicts for a class."""

import datetime
import time
from pathlib import Path

import click

from ...course.entities import Day, Task
from ...course.registry import UsageError
from ...course.results import TaskResult
from ...course.selection import by_day, selected
from ...grading.day import ExitState, grade_day
from ...learner import progress
from ...terminal.screen import say
from .. import out_file
from ..options import OUT_FILE, names_of_tasks
from . import formats, provenance
from .verdicts import GradedDay, verdict_of

FORMS = ("junit", "json", "gradescope")
POINTS = ("difficulty", "minutes")


@click.command()
@names_of_tasks
@click.option("--format", "form", type=click.Choice(FORMS), help="The output format.")
@click.option("--out", type=OUT_FILE, help="The output file (default: stdout).")
@click.option(
    "--points", type=click.Choice(POINTS), default=POINTS[0], show_default=True, help="The points of a passed task."
)
@click.option("--history", is_flag=True, help="Include the attempts at each task (json only).")
def export(
    names: tuple[str, ...],
    form: str | None,
    out: Path | None,
    week: int | None,
    day: int | None,
    points: str,
    history: bool,
) -> int:
    """Grade the course (or the named tasks, days or weeks) and export the verdicts for a class.

    A passed task scores its difficulty or, with --points minutes, its planned minutes; a failed or borrowed task scores
    0. A task that cannot run here does not count, and an optional one adds points on top. The export has hashes of the
    graded files and of the tests. The exit code is 0 once the verdicts are written, whatever they are.

    The attempts that pdm run history shows are exported only with --history: then the json has each attempt's time,
    verdict, message, named mistakes, and your code.
    """
    if form is None:
        raise UsageError(f"Choose a format ({', '.join(FORMS)}):", "pdm run export --format junit --out verdicts.xml")
    if history and form != "json":
        raise UsageError(f"{form} cannot hold attempts; json can:", "pdm run export --format json --history")
    if out is not None:
        out_file.must_be_writable(out, "export", formats.is_export)
    tasks = selected(names, week, day, f"export --format {form}")
    begun = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    exits = ExitState()
    days = [_graded(the_day, its_tasks, points, exits, history) for the_day, its_tasks in by_day(tasks)]
    source = provenance.of(begun.isoformat())
    text = formats.FORMATS[form](days, source)
    if out is None:
        click.echo(text, nl=False)
    else:
        out_file.write(out, text)
    verdicts = [verdict for graded in days for verdict in graded.verdicts]
    score, most = sum(v.points for v in verdicts), sum(v.max_points for v in verdicts)
    for line in provenance.warnings(source):
        say(line, color="yellow", err=True)
    written = f"{out}: " if out else ""
    say(f"{written}{formats.counted(verdicts)}, {score} of {most} point{'s' * (most != 1)}", err=True)
    return 0


def _graded(day: Day, tasks: list[Task], points: str, exits: ExitState, history: bool) -> GradedDay:
    started, borrowed = time.monotonic(), progress.borrowed()
    why = "the tests were stopped before it"
    try:
        results = {result.task.id: result for result in grade_day(day, tasks=tasks, exits=exits)}
    except UsageError as error:  # the day's tests are damaged or missing; the other days still count
        results, why = {}, str(error)
    seconds = time.monotonic() - started
    # A task without checks has not passed.
    found = [results.get(task.id, TaskResult(task)) for task in tasks]
    verdicts = [verdict_of(r, int(getattr(r.task, points)), r.task.id in borrowed, why, history) for r in found]
    return GradedDay(day, tuple(sorted(verdicts, key=lambda v: v.task.place)), seconds)
