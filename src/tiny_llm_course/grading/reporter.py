"""Send the harness what happens while pytest runs: each check's result, the diagnosis of each task, capped prints."""

import contextlib
import dataclasses
import inspect
import io
import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from ..course.entities import Task
from ..course.findings import CheckFailed, Finding, Kind
from ..paths import COURSE, TESTS
from ..programs.packages import NotImportable
from ..testkit.outcomes import Stopped
from ..testkit.processes import BORROWED as VARIABLE
from .diagnosis import Checks, Diagnosis, diagnoses
from .exceptions import finding_of
from .failures import Failure, seen_in
from .guard import Breakpoints
from .plugin import (
    ABSENT,
    BORROWED,
    BROKEN,
    FINDING,
    GUARD,
    IMPORTING,
    TASK,
    TRIAL,
    Reporting,
    graded_package,
    run_again,
)
from .prints import Prints
from .processes import CHECK_BEGINS

FAILURE = pytest.StashKey[Failure]()  # how a check failed when it ran last
# Names of checks that say how their cases are chosen, or with what they are compared.
GENERAL = re.compile(r"(as_)?(mlx|pytorch|transformers)|any_\w+|every_program|\w*(sweep|formula|by_hand|five_tokens)")
TRIAL_SECONDS = 15.0  # CPU time of a diagnosis
# Of the learner's prints; the rest is counted.


@dataclasses.dataclass(frozen=True)
class Job:
    """What a child is asked to grade."""

    test_files: list[str]
    events: int  # the file descriptor to write to
    trace: int  # the one for faulthandler
    secret: str  # prefix of every event, which the learner's code does not know
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
        self.trial = False  # checks run again, on known programs, and are not reported
        self.until = 0.0  # CPU time at which that must end
        self.current = ""
        self.settled: set[str] = set()

    def send(self, event: str, **data: Any) -> None:
        """Write one event on a line of its own; nothing in a process that the learner's code has forked."""
        if os.getpid() == self.process:
            os.write(self.job.events, f"\n{self.job.secret}{json.dumps({'event': event, **data})}\n".encode())

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Pass the plugin what only this process knows."""
        config.stash[BROKEN] = {module: Finding.from_json(data) for module, data in self.job.broken.items()}
        config.stash[IMPORTING] = lambda module: self.send("importing", module=module)

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Replace the debugger, after pytest has, and say what is borrowed."""
        self.breakpoints = Breakpoints(graded_package(session.config))
        self.breakpoints.install()
        borrowed = session.config.stash[BORROWED]
        os.environ[VARIABLE] = " ".join(sorted(borrowed))  # for the processes that checks start

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Report tests that cannot be imported because of a file of the learner's: none of them can run."""
        report = yield
        call: pytest.CallInfo[Any] | None = getattr(report, "call", None)
        if call and call.excinfo and isinstance(error := call.excinfo.value, NotImportable):
            self.send("broken", finding=finding_of(error, graded_package(collector.config)).to_json())
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Report how many checks each task has, how many of them cannot run here, and why."""
        self.items = items
        counts: dict[str, tuple[int, int, list[str]]] = {}
        for item in items:
            here, absent, words = counts.get(item.stash[TASK].id, (0, 0, []))
            lacks = item.stash.get(ABSENT, ())
            counts[item.stash[TASK].id] = here + (not lacks), absent + bool(lacks), [*dict.fromkeys([*words, *lacks])]
        self.send("collected", counts=counts)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
        """Announce each task, and diagnose it after its last check."""
        task = item.stash[TASK]
        if task.id != self.current:
            self.current = task.id
            self.breakpoints.place = ""
            self.send("task", task=task.id)
        self.send("begins", check=item.name)
        result = yield
        last = nextitem is None or nextitem.stash[TASK].id != task.id
        if last and task.id not in self.settled and any(self.failures.get(task.id, {}).values()):
            for found in self._diagnoses(item, task):
                self.send(
                    "mistakes",
                    task=task.id,
                    claims=[*map(dataclasses.asdict, found.claims)],
                    culprits=[need.id for need in found.culprits],
                    finding=found.finding.to_json() if found.finding else None,
                )
        return result

    def _diagnoses(self, item: pytest.Item, task: Task) -> Iterator[Diagnosis]:
        """Yield the diagnoses of a failing task; the last one is empty if it tampers with the harness."""
        guard, package = item.config.stash[GUARD], graded_package(item.config)
        items = [each for each in self.items if each.stash[TASK] is task and ABSENT not in each.stash]
        item.config.stash[TRIAL] = self.trial = True
        self.send("diagnosis")
        checks = Checks(task, items, self.failures[task.id], self._again)
        try:
            yield from diagnoses(checks, package, self._in_time)
        except Exception:
            if not guard.restore():
                raise
            yield Diagnosis()
        finally:
            item.config.stash[TRIAL] = self.trial = False
        if guard.restore():
            yield Diagnosis()

    def _in_time(self, search: Callable[[float], Diagnosis]) -> Diagnosis:
        """Return what a search finds until its time is up; it is given that time."""
        self.until = time.process_time() + TRIAL_SECONDS
        with contextlib.suppress(TimeoutError):
            return search(self.until)
        return Diagnosis()

    def _again(self, item: pytest.Item) -> Failure | None:
        if time.process_time() > self.until:
            raise TimeoutError
        return None if run_again(item) else item.stash[FAILURE]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """Capture the learner's prints; skip the further checks of a task that is not started or cannot be run."""
        task = item.stash[TASK].id
        if self.trial:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                return (yield)
        if task in self.settled:
            pytest.skip("not started, or it cannot be run")
        with contextlib.suppress(OSError):  # native code's output after it belongs to this check
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
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Reporting:
        """Send each check's result."""
        report = yield
        finding = item.stash.get(FINDING, None) if report.failed else None
        finding = finding and of_check(finding, item)
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


def of_check(finding: Finding, item: pytest.Item) -> Finding:
    """Return a finding with the check that has failed: its name, and what it is about."""
    return dataclasses.replace(finding, check=item.name, named=_named(item), about=_about(item))


def _named(item: pytest.Item) -> str:
    """Return a check's name in words, such as "refuses other shapes"; "" if they do not say what it is about."""
    name = item.name.partition("[")[0].removeprefix(f"test_{item.stash[TASK].tests}_")
    if name in getattr(getattr(item, "callspec", None), "params", ()):
        return f"different values of `{name}`"
    return name.replace("_", " ") if "_" in name and not GENERAL.fullmatch(name) else ""  # one word says too little


def _about(item: pytest.Item) -> str:
    """Return what is checked: the first paragraph of the test's docstring, on one line."""
    said = (isinstance(item, pytest.Function) and inspect.getdoc(item.obj)) or ""
    return " ".join(said.partition("\n\n")[0].split())


def _failure(finding: Finding, call: pytest.CallInfo[None]) -> Failure:
    error = call.excinfo.value if call.excinfo else None
    if error and not isinstance(error, CheckFailed):
        return Failure(finding, Stopped.by(error))
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__ if error else None)]
    kit, tests = (
        [f for f in frames if Path(f.f_code.co_filename).is_relative_to(d)] for d in (COURSE / "testkit", TESTS)
    )
    result = next(
        (frame.f_locals["actual"] for frame in [*kit[::-1], *tests[::-1]] if "actual" in frame.f_locals), None
    )
    return Failure(finding, result=result, seen=seen_in(tests))
