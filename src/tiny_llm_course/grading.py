"""Grades a day in child processes, within limits of time and memory, whatever the learner's code does.

A child reports check by check. If it dies, the task (or the import) it was busy with has failed, and another child goes
on with the rest. A task has passed only when every one of its checks has reported a pass.
"""

import contextlib
import dataclasses
import json
import linecache
import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

import psutil

from . import progress
from .day_files import must_be_there, no_check, tests_path
from .findings import Finding, Kind
from .paths import LEARNER, ROOT, SOLUTION
from .registry import Day, Task, UsageError, load_course
from .results import TaskResult
from .tail import Tail
from .workers import Worker

TICK = 0.02  # seconds between two looks at a child
STEP = 1.0  # seconds that one look counts at most: a machine that slept did not compute
TRACE = 1.0  # seconds a child may take to say at which line it is
START = 60.0  # seconds a child may take for what is not the learner's: starting Python, importing the tests


class NothingSelected(UsageError):
    """No check of a day fits what was typed after the dashes."""


class Cancelled(Exception):
    """Nobody waits for the verdict any more."""


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one task may take: seconds of wall time, and bytes of resident memory of the whole child."""

    seconds: float = 20.0
    memory: int = 4 << 30


def grade_day(
    day: Day,
    *,
    tasks: Iterable[Task] | None = None,
    solution: bool = False,
    oracle: str = "recorded",
    limits: Limits | None = None,
    pytest_args: tuple[str, ...] = (),
    begin: Callable[[], None] = lambda: None,
    worker: Worker | None = None,
    cancelled: threading.Event | None = None,
) -> list[TaskResult]:
    """Grade the tasks of a day (all of them by default) and give the results of those that had a check selected.

    `begin` is called once, as soon as it is known that there is something to grade. `worker` is one that waits already.

    Raises:
        Cancelled: `cancelled` was set meanwhile.
        UsageError: pytest did not understand `pytest_args`, or the tests are not all there.
        NothingSelected: they select nothing.
    """
    must_be_there(day)
    wanted = list(day.tasks if tasks is None else tasks)
    results = {task.id: TaskResult(task) for task in wanted}
    if not solution:
        progress.prepare(results.values(), whole=not pytest_args)
    left = list(results)
    broken: dict[str, str] = {}
    while left:
        options = [*(["--solution"] if solution else []), "--oracle", oracle, *(f"--task={task}" for task in left)]
        package = SOLUTION if solution else LEARNER
        job = {
            "test_file": str(tests_path(day)),
            "broken": broken,
            "pytest_args": [*options, *pytest_args],
        }
        run = _Child(worker or Worker(), job, package, limits or Limits(), cancelled or threading.Event())
        worker = None
        run.watch(results, begin)
        if run.ended:
            break
        assert run.death
        if run.task:
            results[run.task].add(run.death)
            left = [task for task in left if task not in run.begun]
            # What uses it would end in the same way, after the same time.
            for user in [task for task in left if run.task in load_course().needs(task)]:
                left.remove(user)
                results[user].add(Finding(Kind.STOPPED, f"not run: it uses {run.task}, which did not end"))
                results[user].culprits = (run.task,)
        elif run.module and run.module not in broken:
            broken[run.module] = run.death.headline
            for result in (r for r in results.values() if r.task.targets[0].module == run.module):
                result.add(dataclasses.replace(run.death, kind=Kind.NO_IMPORT))
        else:
            raise UsageError(f"The tests could not be run: {run.last_words()}")
    selected = [result for result in results.values() if result.checks]
    if not pytest_args and (untested := [task.id for task in wanted if not results[task.id].checks]):
        raise no_check(day, untested[0])
    if not selected:
        raise NothingSelected(f"No check of day {day.number} of week {day.week} fits {' '.join(pytest_args)}.")
    return selected


class _Child:
    """One child process and what it has told so far."""

    def __init__(
        self, worker: Worker, job: dict[str, Any], package: Path, limits: Limits, cancelled: threading.Event
    ) -> None:
        self.limits = limits
        self.package = package
        self.task = ""  # what it is busy with: this task, or else importing this module
        self.module = ""
        self.begun: list[str] = []
        self.ended = False
        self.death: Finding | None = None
        self._cancelled = cancelled
        self._worker = worker
        self._process = worker.process
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        assert self._process.stdout
        self._words = Tail(self._process.stdout)
        self._trace = Tail(os.fdopen(worker.trace, "rb"))
        reader = threading.Thread(target=self._read_events, args=(os.fdopen(worker.events, "rb"),), daemon=True)
        reader.start()
        self._threads = [reader, self._words, self._trace]
        worker.begin(**job)

    def _read_events(self, pipe: IO[bytes]) -> None:
        secret = self._worker.secret.encode()
        with pipe:
            for line in pipe:
                if line.startswith(secret):
                    self._events.put(json.loads(line.removeprefix(secret)))

    def last_words(self) -> str:
        """The last line that pytest or the system wrote."""
        lines = [line.strip() for line in self._words.text().splitlines() if line.strip()]
        errors = [line for line in lines if "rror:" in line]
        return (errors or lines or ["it wrote nothing"])[-1]

    def watch(self, results: dict[str, TaskResult], begin: Callable[[], None]) -> None:
        """Take the events until the child has ended or has been ended."""
        self._begin = begin
        busy, last = 0.0, time.monotonic()
        memory = psutil.Process(self._process.pid)
        try:
            # The pipes say nothing: what the child started may hold them open, and it may close them itself.
            while not self.ended and self._process.poll() is None:
                if self._cancelled.is_set():
                    raise Cancelled
                try:
                    event = self._events.get(timeout=TICK)
                except queue.Empty:
                    pass
                else:
                    if event["event"] in ("task", "importing", "collected"):
                        busy = 0.0
                    self._take(event, results)
                now = time.monotonic()
                busy, last = busy + min(now - last, STEP), now
                allowed = self.limits.seconds if self.task or self.module else START
                if busy > allowed:
                    self._end(f"still running after {allowed:g} s, the limit of a task")
                    return
                if _resident(memory) > self.limits.memory:
                    self._end(f"used more than {self.limits.memory / (1 << 30):.3g} GB of memory, the limit of a task")
                    return
            if not self.ended:
                self._settle()
                while not self._events.empty():
                    self._take(self._events.get(), results)
            if not self.ended:
                self._died(self._process.wait())
        finally:
            self._worker.end()

    def _take(self, event: dict[str, Any], results: dict[str, TaskResult]) -> None:
        match event["event"]:
            case "importing":
                self.module = event["module"]
            case "collected":
                if event["counts"] and not any(result.checks for result in results.values()):
                    self._begin()
                for task, count in event["counts"].items():
                    results[task].checks = count
            case "task":
                self.task = event["task"]
                self.begun.append(self.task)
            case "check":
                result = results[event["task"]]
                result.passed += event["outcome"] == "passed"
                result.failed += event["outcome"] == "failed"
                if event["finding"]:
                    result.add(Finding.from_json(event["finding"]))
                count, lines = event["prints"]
                result.prints = (count, tuple(lines))
            case "mistakes":
                results[event["task"]].mistakes = [tuple(m) for m in event["found"]]
                results[event["task"]].culprits = tuple(event["culprits"])
            case "end":
                if event["status"] in (0, 1, 5):  # 5: nothing selected, which the caller sees by itself
                    self.ended = True
                elif event["status"] == 4:
                    self._settle()
                    raise UsageError(f"pytest says: {self.last_words()}")
                # 2 and 3: interrupted from within. It ends now, and counts as dead in the task that it was busy with.

    def _settle(self) -> None:
        """Wait, not for ever, for the child's end and for what it has written to arrive."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        for thread in self._threads:
            thread.join(1.0)

    def _end(self, why: str) -> None:
        """Ask the child for the line it is at, then end it."""
        self._process.send_signal(signal.SIGUSR1)
        until = time.monotonic() + TRACE
        while not self._trace.text().endswith("\n") and time.monotonic() < until:
            time.sleep(TICK)
        time.sleep(TICK)
        self._process.kill()
        self._process.wait()
        self.death = Finding(Kind.STOPPED, why, frames=self._crash_frames())

    def _died(self, status: int) -> None:
        if status < 0:
            why = f"the process crashed: {signal.Signals(-status).name}"
        else:
            why = f"your code ended the tests (exit code {status}), which is not a way to pass them"
        self.death = Finding(Kind.STOPPED, why, frames=self._crash_frames())

    def _crash_frames(self) -> tuple[str, ...]:
        """The graded package's lines in faulthandler's trace (which has the innermost first)."""
        frames = []
        for thread in self._threads:
            thread.join(0.2)
        # Its paths are in ASCII: what is not stands there as \xe9 or \u6a21.
        trace = re.sub(r"\\(?:x\w{2}|u\w{4}|U\w{8})", _unescaped, self._trace.text())
        for file, number in re.findall(r'^  File "(.*)", line (\d+) in ', trace, re.MULTILINE):
            if Path(file).is_relative_to(self.package):
                code = linecache.getline(file, int(number)).strip()  # empty if the file has changed since
                frames.append(f"{Path(file).relative_to(ROOT).as_posix()}:{number}  {code}")
        return tuple(reversed(frames))


def _unescaped(escape: re.Match[str]) -> str:
    try:
        return chr(int(escape[0][2:], 16))
    except (ValueError, OverflowError):  # a backslash of the path's own
        return escape[0]


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0
