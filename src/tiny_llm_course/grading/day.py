"""Grades a day in child processes, within limits of time and memory, whatever the learner's code does.

A child reports check by check. If it dies, the task (or the import) it was busy with has failed, and another child goes
on with the rest, without what uses that task or file. A task has passed only when every one of its checks has reported
a pass.
"""

import dataclasses
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from ..course.findings import Finding, Kind
from ..course.nouns import Day, Task
from ..course.places import must_be_there, no_check, tests_paths
from ..course.registry import UsageError, load_course
from ..course.requirements import missing
from ..course.results import TaskResult
from ..learner import progress
from ..paths import LEARNER, SOLUTION
from ..source.written import is_within
from .build import build_for
from .deaths import Trace, death, death_of_import
from .process import ChildProcess, Limits
from .worker import Worker


class NothingSelected(UsageError):
    """No check of a day fits what was typed after the dashes."""


@dataclasses.dataclass
class Ends:
    """What has brought a grading process to its end. Who grades several days hands it on: no day finds it anew."""

    files: dict[str, Finding] = dataclasses.field(default_factory=dict)  # by module
    tasks: dict[str, str] = dataclasses.field(default_factory=dict)  # with what they did, as the end of a sentence


def grade_day(
    day: Day,
    *,
    tasks: Iterable[Task] | None = None,
    solution: bool = False,
    oracle: str = "recorded",
    limits: Limits | None = None,
    pytest_args: tuple[str, ...] = (),
    ends: Ends | None = None,
    begin: Callable[[], None] = lambda: None,
    finished: Callable[[TaskResult], None] = lambda result: None,
    worker: Worker | None = None,
    cancelled: threading.Event | None = None,
) -> list[TaskResult]:
    """Grade the tasks of a day (all of them by default) and give the results of those that had a check selected.

    `begin` is called once, as soon as it is known that there is something to grade; `finished` with the result of each
    task that another one follows, as soon as all of its checks have run. `worker` is one that waits already.

    Raises:
        Cancelled: `cancelled` was set meanwhile.
        UsageError: pytest did not understand `pytest_args`, or the tests are not all there.
        NothingSelected: they select nothing.
    """
    must_be_there(day)
    wanted = list(day.tasks if tasks is None else tasks)
    results = {task.id: TaskResult(task, missing=missing(task.requires)) for task in wanted}
    if not solution:
        progress.prepare(results.values(), whole=not pytest_args)
    ends, cancelled = ends or Ends(), cancelled or threading.Event()
    packages = [SOLUTION] if solution else [LEARNER, SOLUTION]  # what is borrowed is ours, and so is the diagnosis
    for task_id, finding in build_for(wanted, packages, cancelled).items():
        results[task_id].add(finding)
    left = [task for task, r in results.items() if not r.finding and not _goes_without(r, ends)]
    if not left:
        begin()
    while left:
        options = [*(["--solution"] if solution else []), "--oracle", oracle, *(f"--task={task}" for task in left)]
        package = SOLUTION if solution else LEARNER
        job = {
            "test_files": [*map(str, tests_paths(results[task].task for task in left))],
            "broken": {module: finding.to_json() for module, finding in ends.files.items()},
            "pytest_args": [*options, *pytest_args],
        }
        run = ChildProcess(worker or Worker(), job, package, limits or Limits(), cancelled)
        worker = None
        run.watch(results, begin, finished)
        if run.ended:
            break
        if run.task:
            left = [task for task in left if task not in run.begun]
            result, trace = results[run.task], run.trace()
            if result.failed and result.passed + result.failed == result.checks:
                continue  # it ended while its mistake was looked for: what it fails by is known
            if not result.failed or trace.frames:
                result.add(_death_in(result, run, trace, package))
            ends.tasks[run.task] = run.did
            left = [task for task in left if not _goes_without(results[task], ends)]
        elif run.module and run.module not in ends.files:
            at_fault, finding = death_of_import(run.why, run.trace(), run.module, package)
            ends.files |= {run.module: finding, at_fault: finding}
        else:
            raise UsageError(f"The tests could not be run: {run.last_words()}")
    selected = [result for result in results.values() if result.checks or result.absent or result.finding]
    if not pytest_args and (untested := [result.task for result in results.values() if result not in selected]):
        raise no_check(untested[0])
    if not selected:
        which = f"{'the ' * day.is_open}{day.called} of week {day.week}"
        raise NothingSelected(f"No check of {which} fits {' '.join(pytest_args)}.")
    return selected


def _goes_without(result: TaskResult, ends: Ends) -> bool:
    """Whether a task is not run, as it uses one that did not end: it would end in the same way, after the same time."""
    for task, did in ends.tasks.items():
        if task in load_course().needs(result.task.id):
            result.add(Finding(Kind.STOPPED, f"it uses {task}, which {did}", blocker=task))
            return True
    return False


def _death_in(result: TaskResult, run: ChildProcess, trace: Trace, package: Path) -> Finding:
    """The finding for a task that was busy when its process ended."""
    at_own = any(is_within(frame.partition("  ")[0], result.task, package) for frame in trace.frames)
    if result.stub and not at_own:  # what it was tried with has ended it
        return Finding(Kind.NOT_STARTED, f"not started: {result.task.label}", blocker=result.task.id)
    return death(run.why, trace, run.check, run.wrote())
