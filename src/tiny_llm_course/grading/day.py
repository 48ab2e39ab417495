"""Grade a day in child processes, within limits of time and memory, whatever the learner's code does.

A child reports check by check. If it dies, the task (or the import) in progress has failed, and another child goes on
with the rest, without what uses that task or file. A task has passed only if every one of its checks reported a pass.
"""

import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence

from ..course.entities import Day, Task
from ..course.file_paths import must_be_there, no_check, tests_paths
from ..course.findings import Finding, Kind
from ..course.registry import UsageError, load_course
from ..course.requirements import missing
from ..course.results import TaskResult
from ..course.selection import by_day
from ..learner import progress
from ..paths import LEARNER, SOLUTION
from ..source.code import is_within
from .build import build_for
from .exits import death, death_of_import
from .processes import Worker
from .supervisor import ChildProcess, Limits, Tell

# The result of one task while others are being graded, at last all results, or why there are none.
Update = TaskResult | list[TaskResult] | BaseException


class NothingSelected(UsageError):
    """No check of a day matches the arguments after the dashes."""


@dataclasses.dataclass
class ExitState:
    """What has ended a grading process. Passed on from day to day, so that no day runs into it again."""

    files: dict[str, Finding] = dataclasses.field(default_factory=dict)  # by module
    tasks: dict[str, str] = dataclasses.field(default_factory=dict)  # with what they did: "it uses 1.1.2, which ..."


def grade_day(
    day: Day,
    *,
    tasks: Iterable[Task] | None = None,
    solution: bool = False,
    oracle: str = "recorded",
    limits: Limits | None = None,
    pytest_args: tuple[str, ...] = (),
    exits: ExitState | None = None,
    begin: Callable[[], None] = lambda: None,
    diagnosing: Tell = lambda result: None,
    finished: Tell = lambda result: None,
    worker: Worker | None = None,
    cancelled: threading.Event | None = None,
) -> list[TaskResult]:
    """Grade the tasks of a day (by default all) and return the results of those with a check selected.

    `begin` is called once there is something to grade, `diagnosing` with a failed task's result before its mistake is
    named, `finished` with each result that another task follows, in the order of the day, and after Ctrl-C with one
    whose diagnosis was running. Raise Cancelled if `cancelled` is set, UsageError if pytest rejects `pytest_args` or
    tests are missing, NothingSelected if they match none.
    """
    must_be_there(day)
    wanted = list(day.tasks if tasks is None else tasks)
    results = {task.id: TaskResult(task, missing=missing(task.requires)) for task in wanted}
    if not solution:
        progress.prepare(results.values(), whole=not pytest_args)
    if len(wanted) > 1 and not pytest_args:
        for result in results.values():  # the others run on the reference for it
            if result.stub and result.task.optional and not result.borrowed:
                place = f"not started: {result.task.label}"
                result.add(Finding(Kind.NOT_STARTED, place, blocker=result.task.id))
    told: set[str] = set()

    def done(result: TaskResult) -> None:
        for each in results.values():  # those before it were not run
            if each.task.id not in told and (each.checks or each.absent or each.finding):
                told.add(each.task.id)
                finished(each)
            if each is result:
                return

    exits, cancelled = exits or ExitState(), cancelled or threading.Event()
    packages = [SOLUTION] if solution else [LEARNER, SOLUTION]  # the solution for borrowed tasks and the diagnosis
    for task_id, finding in build_for(wanted, packages, cancelled).items():
        results[task_id].add(finding)
    left = [task for task, r in results.items() if not r.finding and not _goes_without(r, exits)]
    if not left:
        begin()
    while left:
        options = ["--solution"] * solution + ["--oracle", oracle, *(f"--task={task}" for task in left)]
        package = SOLUTION if solution else LEARNER
        job = {
            "test_files": [*map(str, tests_paths(results[task].task for task in left))],
            "broken": {module: finding.to_json() for module, finding in exits.files.items()},
            "pytest_args": [*options, *pytest_args],
        }
        run = ChildProcess(worker or Worker(), job, package, limits or Limits(), cancelled)
        worker = None
        try:
            run.watch(results, begin, diagnosing, done)
        except KeyboardInterrupt:
            if (last := results.get(run.task)) and last.failed and last.passed + last.failed == last.checks:
                done(last)
            raise
        if run.ended:
            for result in results.values() if pytest_args else ():
                result.stopped = result.stopped or "pytest's -x or --maxfail"
            break
        if run.task:
            left = [task for task in left if task not in run.begun]
            result, trace = results[run.task], run.trace()
            if result.failed and result.passed + result.failed == result.checks:
                done(result)  # it ended during the diagnosis: its failures are known
                continue
            result.stopped = run.cause
            if not result.failed or trace.frames:
                at_own = any(is_within(frame.partition("  ")[0], result.task, package) for frame in trace.frames)
                if result.stub and not at_own:  # the diagnosis, or a task that it uses, ended it
                    not_started = f"not started: {result.task.label}"
                    result.add(Finding(Kind.NOT_STARTED, not_started, blocker=result.task.id))
                else:
                    result.add(death(run.why, trace, run.check, run.wrote()))
            exits.tasks[run.task] = run.did
            done(result)
            left = [task for task in left if not _goes_without(results[task], exits)]
        elif run.module and run.module not in exits.files:
            at_fault, finding = death_of_import(run.why, run.trace(), run.module, package)
            exits.files |= {run.module: finding, at_fault: finding}
        else:
            raise UsageError(f"The tests could not be run: {run.last_words()}")
    selected = [result for result in results.values() if result.checks or result.absent or result.finding]
    if not pytest_args and (untested := [result.task for result in results.values() if result not in selected]):
        raise no_check(untested[0])
    if not selected:
        which = f"{'the ' * day.is_open}{day.called} of week {day.week}"
        raise NothingSelected(f"No check of {which} fits {' '.join(pytest_args)}.")
    return selected


def _goes_without(result: TaskResult, exits: ExitState) -> bool:
    """Return whether a task is skipped, as a task that it uses ended its process and would do so again."""
    for task, did in exits.tasks.items():
        if task in load_course().needs(result.task.id):
            result.add(Finding(Kind.STOPPED, f"it uses {task}, which {did}", blocker=task))
            return True
    return False


class Grader:
    """Grade in a thread, the newest request only; `tell` gets its number with each task's result, at last with all."""

    def __init__(self, limits: Limits, tell: Callable[[int, Update], None]) -> None:
        self.number = 0  # of the newest request
        self._limits = limits
        self._tell = tell
        self._cancelled = threading.Event()
        self._threads: list[threading.Thread] = []
        self._ready: Worker | None = None

    def prepare(self) -> None:
        """Start a process ahead, so that the next verdict need not wait for its imports."""
        self._ready = self._ready or Worker()

    def grade(self, tasks: Sequence[Task]) -> None:
        """Start grading these tasks; cancel what is being graded now."""
        self.cancel()
        self._cancelled = threading.Event()
        self.number += 1
        worker, self._ready = self._ready, None
        # Not a daemon: it must live to end its process.
        thread = threading.Thread(target=self._run, args=(self.number, list(tasks), worker, self._cancelled))
        self._threads = [*(t for t in self._threads if t.is_alive()), thread]
        thread.start()

    def cancel(self) -> None:
        """Cancel what is being graded."""
        self._cancelled.set()

    def close(self) -> None:
        """End all processes."""
        self.cancel()
        for thread in self._threads:
            thread.join()
        if self._ready:
            self._ready.dismiss()
            self._ready = None

    def _run(self, number: int, tasks: list[Task], worker: Worker | None, cancelled: threading.Event) -> None:
        def tell(update: Update) -> None:
            if not cancelled.is_set():
                self._tell(number, update)

        found: list[TaskResult] = []
        try:
            for day, its_tasks in by_day(tasks):
                found += grade_day(
                    day, tasks=its_tasks, limits=self._limits, worker=worker, cancelled=cancelled, finished=tell
                )
                worker = None
        except Exception as error:  # `tell` drops it if the request is cancelled
            tell(error)
        else:
            tell(found)
