"""The child process: grades one day with pytest and tells the harness what happens, one JSON object a line.

Started as `python -m tiny_llm_course.grading.child`, with the JSON of a `Job` on stdin. What the learner prints is kept
apart, labelled and capped; a crash writes the Python lines it happened on to the job's second pipe.
"""

import contextlib
import dataclasses
import faulthandler
import io
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ..course.findings import CheckFailed, Finding, Kind
from ..course.nouns import Task
from ..paths import COURSE
from ..programs.packages import NotImportable
from ..testkit.outcomes import Stopped
from .again import run_again
from .breakpoints import Breakpoints
from .diagnosis import finding_of
from .own_processes import signal_no_others
from .own_settings import OWN_SETTINGS
from .plugin import ABSENT, BROKEN, FINDING, GUARD, IMPORTING, TASK, TRIAL, graded_package
from .prints import Prints
from .told import Checks, Failure, Told, diagnose
from .worker import CHECK_BEGINS

# What the tests of most days import: a process that is started ahead has it when its job comes.
READY = ("hypothesis", "mlx.nn", "numpy")
FAILURE = pytest.StashKey[Failure]()  # how a check has failed when it was run last
TRIAL_SECONDS = 15.0  # of computing, for which programs and checks may run to see what may be told


@dataclasses.dataclass(frozen=True)
class Job:
    """What a child is asked to grade."""

    test_files: list[str]
    events: int  # the file descriptor to write to
    trace: int  # the one for faulthandler
    secret: str  # begins every event: what else is written to the pipe is not from here
    broken: dict[str, dict[str, Any]]  # modules that cannot be imported, with the finding
    pytest_args: list[str]


class Reporter:
    """The pytest plugin that sends the events."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.process = os.getpid()
        self.prints: dict[str, Prints] = {}
        self.items: list[pytest.Item] = []
        self.failures: dict[str, dict[str, Failure | None]] = {}  # by task and check; None if it passes
        self.trial = False  # checks run again, on other programs, and nobody is told
        self.until = 0.0  # when that must end
        self.current = ""
        self.settled: set[str] = set()

    def send(self, event: str, **data: Any) -> None:
        """One line to the harness, on a line of its own; a process that the learner's code has forked says nothing."""
        if os.getpid() == self.process:
            os.write(self.job.events, f"\n{self.job.secret}{json.dumps({'event': event, **data})}\n".encode())

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Hand the plugin what only this process knows."""
        config.stash[BROKEN] = {module: Finding.from_json(data) for module, data in self.job.broken.items()}
        config.stash[IMPORTING] = lambda module: self.send("importing", module=module)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Take the debugger's place, after pytest has."""
        self.breakpoints = Breakpoints(graded_package(session.config))
        self.breakpoints.install()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Tests that use, while they are imported, what of the learner's cannot be imported: none of them can run."""
        report = yield
        call: pytest.CallInfo[Any] | None = getattr(report, "call", None)
        if call and call.excinfo and isinstance(error := call.excinfo.value, NotImportable):
            self.send("broken", finding=finding_of(error, graded_package(collector.config)).to_json())
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Say how many checks each task has, those that can be run here and those that cannot, and why."""
        self.items = items
        counts: dict[str, tuple[int, int, list[str]]] = {}
        for item in items:
            here, absent, words = counts.get(item.stash[TASK].id, (0, 0, []))
            lacks = item.stash.get(ABSENT, ())
            counts[item.stash[TASK].id] = here + (not lacks), absent + bool(lacks), [*dict.fromkeys([*words, *lacks])]
        self.send("collected", counts=counts)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        """Announce each task, and look for its mistake after its last check."""
        task = item.stash[TASK]
        if task.id != self.current:
            self.current = task.id
            self.breakpoints.place = ""
            self.send("task", task=task.id)
        self.send("begins", check=item.name)
        result = yield
        last = nextitem is None or nextitem.stash[TASK].id != task.id
        if last and task.id not in self.settled and any(self.failures.get(task.id, {}).values()):
            told = self._told(item, task)
            self.send(
                "mistakes",
                task=task.id,
                claims=[*map(dataclasses.asdict, told.claims)],
                culprits=[need.id for need in told.culprits],
                finding=told.finding.to_json() if told.finding else None,
            )
        return result

    def _told(self, item: pytest.Item, task: Task) -> Told:
        """What to tell of a failing task; nothing if it has replaced what that is found by, or it takes long."""
        guard = item.config.stash[GUARD]
        items = [each for each in self.items if each.stash[TASK] is task and ABSENT not in each.stash]
        item.config.stash[TRIAL] = self.trial = True
        self.until = time.process_time() + TRIAL_SECONDS
        self.send("diagnosis")
        try:
            checks = Checks(task, items, self.failures[task.id], self._again)
            told = diagnose(checks, graded_package(item.config), self.until)
        except Exception as error:
            if guard.restore() or isinstance(error, TimeoutError):
                return Told()
            raise
        finally:
            item.config.stash[TRIAL] = self.trial = False
        return Told() if guard.restore() else told

    def _again(self, item: pytest.Item) -> Failure | None:
        """How a check fails now."""
        if time.process_time() > self.until:
            raise TimeoutError
        return None if run_again(item) else item.stash[FAILURE]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Keep the learner's prints; a task that is not started or cannot be run needs no second check to say so."""
        task = item.stash[TASK].id
        if self.trial:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                return (yield)
        if task in self.settled:
            pytest.skip("not started, or it cannot be run")
        with contextlib.suppress(OSError):  # what native code writes from here on belongs to this check
            os.write(1, CHECK_BEGINS.encode())
        prints = self.prints.setdefault(task, Prints())
        stdout, stderr = sys.stdout, sys.stderr
        sys.stdout = sys.stderr = prints
        try:
            return (yield)
        finally:
            sys.stdout, sys.stderr = stdout, stderr
            prints.end_line()

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # the outermost: after the plugin has made its finding
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Send each check's result."""
        report = yield
        finding = item.stash.get(FINDING, None) if report.failed else None
        finding = finding and dataclasses.replace(finding, check=item.name)
        failure = _failure(finding, call) if finding else None
        if failure:
            item.stash[FAILURE] = failure
        if (report.when == "call" or report.failed) and not self.trial:
            task = item.stash[TASK]
            if finding and (finding.blocker or finding.place):
                self.settled.add(task.id)
            elif report.skipped and task.id not in self.settled:
                finding = Finding(Kind.STOPPED, "your code skipped the check, which is not a way to pass it")
            self.failures.setdefault(task.id, {})[item.name] = failure
            prints = self.prints.get(task.id, Prints())
            self.send(
                "check",
                task=task.id,
                outcome=report.outcome,
                finding=finding.to_json() if finding else None,
                prints=[prints.count, prints.lines],
                breakpoint=self.breakpoints.place,
            )
        return report


def _failure(finding: Finding, call: pytest.CallInfo[None]) -> Failure:
    error = call.excinfo.value if call.excinfo else None
    if error and not isinstance(error, CheckFailed):
        return Failure(finding, Stopped.by(error))
    result = None
    for frame, _ in traceback.walk_tb(error.__traceback__ if error else None):
        if Path(frame.f_code.co_filename).is_relative_to(COURSE / "testkit"):
            result = frame.f_locals.get("actual", result)
    return Failure(finding, result=result)


def main() -> int:
    """Wait for the job, grade, and tell."""
    for name in READY:
        import_module(name)
    words = sys.stdin.read()  # which is at its end then, as if it were closed
    if not words:
        return 0  # whoever started it has no job for it, or has gone
    job = Job(**json.loads(words))
    for pipe in (job.events, job.trace):
        os.set_inheritable(pipe, False)
    faulthandler.enable(file=job.trace)
    # The harness asks for the current line before it ends a child that takes too long or too much.
    faulthandler.register(signal.SIGUSR1, file=job.trace)
    leave, own = os._exit, os.getpid()

    def recorded_exit(status: int) -> None:
        if os.getpid() == own:  # and not a process that the learner's code has forked
            faulthandler.dump_traceback(file=job.trace)
        leave(status)

    os._exit = recorded_exit  # type: ignore[assignment]
    signal_no_others()
    reporter = Reporter(job)
    # Our own prints stay apart from pytest's: `-s` switches its capturing off, faulthandler is set up above.
    # Nobody reads its tracebacks, which it would lay out for seconds if a message is long, nor what it finds when it
    # collects all garbage at the end, which takes as long as a day's quickest checks.
    left_out = ("-p", "no:faulthandler", "-p", "no:cacheprovider", "-p", "no:unraisableexception")
    ours = (*OWN_SETTINGS, "-s", "--tb=native", *left_out)
    args = [*job.test_files, *ours, *job.pytest_args]
    status = int(pytest.main(args, plugins=[reporter]))
    reporter.send("end", status=status)
    return status


if __name__ == "__main__":
    sys.exit(main())
