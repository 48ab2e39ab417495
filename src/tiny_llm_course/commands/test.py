"""`pdm run test`: grade, and report on one screen what passed and what to fix first."""

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec

import click

from ..course.entities import Task
from ..course.file_paths import day_files, recordings_path, tests_paths
from ..course.registry import UsageError, load_course
from ..course.results import TaskResult
from ..course.selection import by_day, selected
from ..doctor.git import changed
from ..doctor.shadowing import shadowing_files
from ..grading.day import ExitState, NothingSelected, grade_day
from ..grading.processes import OWN_SETTINGS
from ..grading.report import ScreenBudget, faults, report_heading, report_results, report_sum
from ..grading.supervisor import Limits
from ..learner import attempts, progress
from ..paths import LEARNER, ROOT, SOLUTION
from ..source.targets import holds_stub
from ..terminal.screen import say
from .options import Finite, names_of_tasks

NAMED = 3  # changed files listed


@click.command()
@names_of_tasks
@click.option("--solution", is_flag=True, help="Grade solutions/tiny_llm instead of src/tiny_llm.")
@click.option("--full", is_flag=True, help="Show pytest's own output, with arrays, without time and memory limits.")
@click.option(
    "--oracle",
    type=click.Choice(["recorded", "torch"]),
    default="recorded",
    help="PyTorch's answers: recorded or live",
)
@click.option("--time-limit", type=Finite(min=0.1), help="Seconds per task (default: mostly 20).")
@click.option("--memory-limit", type=Finite(min=0.1), default=Limits.memory / 2**30, help="GB per task.")
@click.pass_obj
def test(
    pytest_args: tuple[str, ...],
    names: tuple[str, ...],
    week: int | None,
    day: int | None,
    solution: bool,
    full: bool,
    oracle: str,
    time_limit: float | None,
    memory_limit: float,
) -> int:
    """Grade a task (1.1.2), a day (1.1, or --week 1 --day 1) or a week (1); by default everything you have started.

    Arguments after -- go to pytest: pdm run test --week 1 --day 1 -- -k task_1
    """
    tasks = selected(names, week, day)
    for text in shadowing_files().values():
        say(f"{text} Rename it, or move it out of src.", colour="yellow", err=True)
    graders = [file for the_day, _ in by_day(tasks) for file in (*day_files(the_day), recordings_path(the_day))]
    if not solution and (others := changed(file for file in graders if file.is_file())):
        named = ", ".join(others[:NAMED]) + f" and {len(others) - NAMED} more" * (len(others) > NAMED)
        say(f"These tests differ from the published ones: {named}", colour="yellow", err=True)
    if full:
        plugin = ["-p", "tiny_llm_course.grading.failing_case"]
        return run_pytest(tasks, [*plugin, "--oracle", oracle, *(["--solution"] * solution), *pytest_args])
    limits = Limits(time_limit, int(memory_limit * 2**30))
    package = (SOLUTION if solution else LEARNER).relative_to(ROOT).as_posix()
    everything = not names and week is None
    verdicts: list[TaskResult] = []
    borrowed = progress.borrowed()
    budget = ScreenBudget.of(
        t for t in tasks if solution or not everything or t.id in borrowed or not holds_stub(t, LEARNER)
    )
    exits, remembered = ExitState(), True
    reported: set[str] = set()
    if oracle == "torch" and find_spec("torch") is None:
        raise UsageError("PyTorch is not installed here. Without --oracle torch, its recorded answers are used.")
    for the_day, its_tasks in by_day(tasks):
        heading = partial(report_heading, the_day, package, gap=bool(verdicts))
        try:
            results = grade_day(
                the_day,
                tasks=its_tasks,
                solution=solution,
                oracle=oracle,
                limits=limits,
                pytest_args=pytest_args,
                exits=exits,
                begin=(lambda: None) if everything else heading,
            )
        except NothingSelected:
            if len(by_day(tasks)) == 1:
                raise
            continue  # -k may select checks of another day
        remembered = attempts.record(results) and remembered
        broken = {place: fault for place, fault in faults(results).items() if place not in reported}
        reported |= broken.keys()
        if everything:
            results = [r for r in results if r.status != "not started" and not (r.stub and r.status == "not run here")]
            if results or broken:
                heading()
        if results or broken:
            report_results(results, package, broken, budget)
        verdicts += results
    if budget.several and verdicts:
        report_sum(verdicts, package)
    if not verdicts and pytest_args:
        raise UsageError(f"No check matches {' '.join(pytest_args)}.")
    if not verdicts and not reported:
        first = load_course().weeks[0].days[0]
        say(f"No task is started yet. Start here: pdm run test --week {first.week} --day {first.number}")
    if not remembered:
        say(progress.FORGOTTEN)
    return 0 if verdicts and all(r.status in ("passed", "not run here") or r.left_out for r in verdicts) else 1


def run_pytest(tasks: Sequence[Task], options: Sequence[str]) -> int:
    """Run raw pytest on some tasks in this terminal; return our exit code: 0 passed, 1 failed, 2 wrong use."""
    files = [*map(str, tests_paths(tasks))]
    wanted = [f"--task={task.id}" for task in tasks]
    command = [sys.executable, "-P", "-m", "pytest", *files, *OWN_SETTINGS, *wanted, *options]
    status = subprocess.run(command, cwd=ROOT).returncode
    return status if status in (0, 1) else 1 if status < 0 else 2
