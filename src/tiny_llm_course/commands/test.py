"""`pdm run test`: grade, and report on one screen what passed and what to fix first."""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec

import click

from ..course.entities import Day, Task
from ..course.file_paths import day_files, name_of, recordings_path, tests_paths
from ..course.findings import Finding
from ..course.registry import UsageError, load_course
from ..course.results import TaskResult, verdict
from ..course.selection import by_day, selected
from ..doctor.git import changed, differ
from ..doctor.shadowing import shadowing_files
from ..grading.day import ExitState, NothingSelected, grade_day
from ..grading.processes import OWN_SETTINGS
from ..grading.report import ScreenBudget, faults, report_fault, report_heading, report_results, report_sum, report_task
from ..grading.supervisor import Limits
from ..learner import attempts, progress
from ..paths import LEARNER, ROOT, SOLUTION
from ..programs.parts import differing
from ..source.code import holds_stub
from ..terminal.screen import say
from .options import Finite, names_of_tasks
from .out_file import waiting

NAMED = 3  # changed files listed


@click.command()
@names_of_tasks
@click.option("--solution", is_flag=True, help="Grade solutions/tiny_llm instead of src/tiny_llm.")
@click.option("--full", is_flag=True, help="Show pytest's own output, with arrays, without time and memory limits.")
@click.option(
    "--oracle", type=click.Choice(["recorded", "torch"]), default="recorded", help="PyTorch's answers: recorded or live"
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
        say(f"{text} Rename it, or move it out of src.", color="yellow", err=True)
    graders = [file for the_day, _ in by_day(tasks) for file in (*day_files(the_day), recordings_path(the_day))]
    others = [] if solution else changed(file for file in graders if file.is_file())
    copies = [] if solution else [name_of(file) for file in differing()]
    for words, files in (("tests", others), ("given files are not used, as they", copies)):
        if files:
            say(differ(words, files, NAMED), color="yellow", err=True)
    if full:
        plugin = ["-p", "tiny_llm_course.grading.failing_case"]
        return run_pytest(tasks, [*plugin, "--oracle", oracle, *(["--solution"] * solution), *pytest_args])
    limits = Limits(time_limit, int(memory_limit * 2**30))
    package = (SOLUTION if solution else LEARNER).relative_to(ROOT).as_posix()
    everything = not names and week is None
    borrowed = progress.borrowed()
    all_count = solution or not everything  # else only what is started
    budget = ScreenBudget.of(t for t in tasks if all_count or t.id in borrowed or not holds_stub(t, LEARNER))
    exits, report = ExitState(), Report(package, budget, everything)
    if oracle == "torch" and find_spec("torch") is None:
        raise UsageError("PyTorch is not installed here. Without --oracle torch, its recorded answers are used.")
    for the_day, its_tasks in by_day(tasks):
        report.day = the_day
        try:
            results = grade_day(
                the_day,
                tasks=its_tasks,
                solution=solution,
                oracle=oracle,
                limits=limits,
                pytest_args=pytest_args,
                exits=exits,
                begin=(lambda: None) if everything else report.head,
                diagnosing=report.diagnosing,
                finished=report.ended,
            )
        except KeyboardInterrupt:
            if budget.several:
                report.complete(report.known)
            raise
        except NothingSelected:
            if len(by_day(tasks)) == 1:
                raise
            continue  # -k may select checks of another day
        report.complete(results)
    verdicts = report.verdicts
    if budget.several and verdicts:
        report_sum(verdicts, package)
    if not verdicts and pytest_args:
        raise UsageError(f"No check matches {' '.join(pytest_args)}.")
    if not verdicts and not report.faults:
        first = load_course().weeks[0].days[0]
        say(f"No task is started yet. Start here: pdm run test --week {first.week} --day {first.number}")
    if not report.remembered:
        say(progress.FORGOTTEN)
    return 0 if verdicts and all(r.status in ("passed", "not run here") or r.left_out for r in verdicts) else 1


class Report:
    """The printed verdicts of a run: of one day each as it comes, of several days a day at a time."""

    def __init__(self, package: str, budget: ScreenBudget, started: bool) -> None:
        self.verdicts: list[TaskResult] = []  # of the days before
        self.known: list[TaskResult] = []  # of the present day
        self.faults: set[str] = set()  # places
        self.remembered = True
        self.day: Day | None = None  # whose heading is to be printed
        self._line = ExitStack()  # shown while the diagnosis runs
        self._package, self._budget, self._started = package, budget, started  # only tasks that are started

    def head(self) -> None:
        """Print the heading of the day, once."""
        if self.day:
            report_heading(self.day, self._package, gap=bool(self.verdicts))
        self.day = None

    def diagnosing(self, result: TaskResult) -> None:
        """On a terminal, show a failed task's verdict until its mistake is named."""
        self._line.close()
        self._line.enter_context(waiting(f"✗ {result.task.id}: {verdict(result)}; looking for the mistake"))

    def ended(self, result: TaskResult) -> None:
        """Store a result, and print it if that need not wait for the others of its day."""
        self._line.close()
        self.remembered = attempts.record([result]) and self.remembered
        self.known.append(result)
        if not self._budget.several and self._is_shown(result):
            self.head()
            for fault in self._new_faults([result]).values():
                report_fault(fault)
            report_task(result, self._package, self._budget)

    def complete(self, results: Sequence[TaskResult]) -> None:
        """Store and print what is left of a day."""
        self._line.close()
        done = {result.task.id for result in self.known}
        self.remembered = attempts.record([r for r in results if r.task.id not in done]) and self.remembered
        broken, shown = self._new_faults(results), [*filter(self._is_shown, results)]
        if shown or broken:
            self.head()
            report_results(shown, self._package, broken, self._budget, () if self._budget.several else done)
        self.verdicts += shown
        self.known = []

    def _is_shown(self, result: TaskResult) -> bool:
        absent = result.stub and result.status == "not run here"
        return not (self._started and (absent or result.status == "not started"))

    def _new_faults(self, results: Sequence[TaskResult]) -> dict[str, Finding]:
        found = {place: fault for place, fault in faults(results).items() if place not in self.faults}
        self.faults |= found.keys()
        return found


def run_pytest(tasks: Sequence[Task], options: Sequence[str]) -> int:
    """Run raw pytest on some tasks in this terminal; return our exit code: 0 passed, 1 failed, 2 wrong use."""
    files = [*map(str, tests_paths(tasks))]
    wanted = [f"--task={task.id}" for task in tasks]
    command = [sys.executable, "-P", "-m", "pytest", *files, *OWN_SETTINGS, *wanted, *options]
    status = subprocess.run(command, cwd=ROOT).returncode
    return status if status in (0, 1) else 1 if status < 0 else 2
