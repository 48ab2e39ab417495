"""`pdm run case 1.1.2`: the failing case of a task, in an interactive Python."""

import os
import signal
import subprocess
import sys
from functools import partial

import click

from ..course.findings import Kind
from ..course.registry import load_course
from ..course.results import verdict
from ..course.selection import one_task
from ..grading.day import grade_day
from ..grading.report import ScreenBudget, facts, faults, report_heading, report_results
from ..learner import progress
from ..paths import LEARNER, ROOT
from ..terminal.screen import say

INTERRUPTED = 130  # the console's exit code after Ctrl-C


@click.command()
@click.argument("names", nargs=-1, metavar="1.1.2")
def case(names: tuple[str, ...]) -> int:
    """Open a task's failing case in Python: its inputs, the expected result, and yours.

    The case's values are variables, and your code is `program`: call it; a breakpoint() in it stops there. Without a
    terminal, the arrays are printed. The exit code is 0 if the task passes, 1 if there is a failing case.
    """
    task = one_task(names, "case", lambda task: progress.status_of(task.id) == "failed")
    day = load_course().day_of(task)
    (result,) = results = grade_day(day, tasks=[task])
    progress.record(results)
    if result.status == "passed":
        say(f"✓ {task.label} passes: there is no failing case", color="green")
        return 0
    found = result.finding
    if result.status != "failed" or found is None or found.place or not found.check:
        package = LEARNER.relative_to(ROOT).as_posix()
        report_heading(day, package)
        report_results(results, package, faults(results), ScreenBudget.of([task]))
        return 0 if result.status == "not run here" else 1
    say(f"✗ {task.label}: {verdict(result)}", color="red", bold=True)
    for culprit in result.culprits:
        say(f"    Start there: pdm run case {culprit}")
    if ended := found.kind == Kind.STOPPED:
        for line in [partial(say, f"    {found.headline}"), *facts(found)]:
            line()
    typing = sys.stdin.isatty() and sys.stdout.isatty()
    words = ["-m", "tiny_llm_course.grading.console", task.id, found.check, str(int(ended))]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    before = signal.signal(signal.SIGINT, lambda number, frame: None)  # Ctrl-C is for the child
    try:
        # -P, as when grading; in the root, as `pdm run python`.
        status = subprocess.run([sys.executable, "-P", *["-q", "-i"] * typing, *words], cwd=ROOT, env=env).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    return INTERRUPTED if status == INTERRUPTED else 1
