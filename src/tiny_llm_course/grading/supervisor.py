"""A child process that grades: what it tells, its limits of time and memory, and how it came to its end."""

import contextlib
import dataclasses
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ..course.findings import Claim, Finding
from ..course.nouns import Task
from ..course.registry import UsageError, load_course
from ..course.results import TaskResult
from .exits import Trace, cause_of_exit, trace_of
from .processes import CHECK_BEGINS, TICK, Cancelled, Stopwatch, Worker

TRACE = 1.0  # seconds a child may take to say at which line it is
SILENCE = 0.1  # seconds without a word after which it has said it
DIAGNOSIS = 60.0  # seconds beyond those of a task for saying what is wrong with it, on a machine that is busy
TAIL = 65536  # bytes that are kept of what a child writes
START = 60.0  # seconds a child may take for what is not the learner's: starting Python, importing the tests


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one task may take: seconds, as `Stopwatch` counts them, and bytes of resident memory of the child and all it
    started.
    """

    seconds: float | None = None  # by default what the registry gives the task
    memory: int = 4 << 30

    def allowed(self, task: str) -> float:
        """The seconds of a task; those of most tasks for what belongs to none of them, such as an import."""
        return self.seconds or (load_course().task(task).seconds if task else Task.seconds)


class ChildProcess:
    """One child process and what it has told so far."""

    def __init__(
        self, worker: Worker, job: dict[str, Any], package: Path, limits: Limits, cancelled: threading.Event
    ) -> None:
        self.limits = limits
        self.package = package
        self.task = ""  # what it is busy with: this task, or else importing this module
        self.module = ""
        self.check = ""  # the one that is running
        self.begun: list[str] = []
        self.ended = False
        self.why = ""  # why it is gone too early, in words
        self._left = False  # it said that it was going to end
        self._ended_itself = False
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

    def watch(
        self, results: dict[str, TaskResult], begin: Callable[[], None], finished: Callable[[TaskResult], None]
    ) -> None:
        """Take the events until the child has ended or has been ended; each result is handed over when it is whole."""
        self._begin, self._finished = begin, finished
        stopwatch = Stopwatch()
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
                    if event["event"] in ("task", "importing", "collected", "diagnosis"):
                        stopwatch.busy = 0.0 if event["event"] != "diagnosis" else -DIAGNOSIS
                    self._take(event, results)
                allowed = self.limits.allowed(self.task) if self.task or self.module else START
                if stopwatch.look() > allowed:
                    self._end(f"still running after {allowed:g} s, the limit of a task")
                    return
                if self._worker.tree.resident() > self.limits.memory:
                    self._end(f"used more than {self.limits.memory / (1 << 30):.3g} GB of memory, the limit of a task")
                    return
            if not self.ended:
                self._settle()
                while not self._events.empty():
                    self._take(self._events.get(), results)
            if not self.ended:
                self._ended_itself = True
                by_python = self._left or bool(self._trace.text())
                self.why = cause_of_exit(self._process.wait(), by_python)
        finally:
            self._worker.end()

    def _take(self, event: dict[str, Any], results: dict[str, TaskResult]) -> None:
        match event["event"]:
            case "importing":
                self.module = event["module"]
            case "collected":
                if event["counts"] and not any(result.checks or result.absent for result in results.values()):
                    self._begin()
                for task, (checks, absent, missing) in event["counts"].items():
                    result = results[task]
                    result.checks, result.absent = checks, absent
                    result.missing = tuple(dict.fromkeys([*result.missing, *missing]))
            case "task":
                if (done := results.get(self.task)) and done.passed + done.failed == done.checks:
                    self._finished(done)
                self.task = event["task"]
                self.begun.append(self.task)
            case "begins":
                self.check = event["check"]
            case "check":
                self.check = ""
                result = results[event["task"]]
                result.passed += event["outcome"] == "passed"
                result.failed += event["outcome"] == "failed"
                if event["finding"]:
                    result.add(Finding.from_json(event["finding"]))
                count, lines = event["prints"]
                result.prints = (count, tuple(lines))
                result.breakpoint = event["breakpoint"]
            case "mistakes":
                result = results[event["task"]]
                result.claims = tuple(Claim(**claim) for claim in event["claims"])
                result.culprits = tuple(event["culprits"])
                if event["finding"]:
                    result.finding = Finding.from_json(event["finding"])
            case "broken":
                self._begin()
                for result in (r for r in results.values() if not r.finding):
                    result.add(Finding.from_json(event["finding"]))
                self.ended = True
            case "end":
                if event["status"] in (0, 1, 5):  # 5: nothing selected, which the caller sees by itself
                    self.ended = True
                elif event["status"] == 4:
                    self._settle()
                    raise UsageError(f"pytest says: {self.last_words()}")
                # 2 and 3: interrupted from within. It ends now, and counts as dead in the task that it was busy with.
                self._left = True

    def _settle(self) -> None:
        """Wait, not for ever, for the child's end and for what it has written to arrive."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        for thread in self._threads:
            thread.join(1.0)

    def _end(self, why: str) -> None:
        """Ask the child for the line it is at, then end it."""
        self._process.send_signal(signal.SIGUSR1)
        said, until = "", time.monotonic() + TRACE
        while not (said and said == self._trace.text()) and time.monotonic() < until:
            said = self._trace.text()
            time.sleep(SILENCE)
        self._worker.end()
        self.why = why

    @property
    def did(self) -> str:
        """What the task did that it was busy with."""
        return "ended the tests" if self._ended_itself else "did not end"

    def trace(self) -> Trace:
        """Where it was when it ended."""
        for thread in self._threads:
            thread.join(0.2)
        return trace_of(self._trace.text(), self.package)

    def wrote(self) -> str:
        """What was written past Python while its last check was running, if it ended by itself."""
        return self._words.text().rpartition(CHECK_BEGINS)[2] if self._ended_itself else ""


class Tail(threading.Thread):
    """Reads a pipe to its end and keeps the last of it, so that a flood of words blocks nobody and fills no memory."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self._kept = b""
        self.start()

    def run(self) -> None:
        """Read."""
        with self._pipe as pipe:
            while chunk := pipe.read1(TAIL):  # type: ignore[attr-defined]
                self._kept = (self._kept + chunk)[-TAIL:]

    def text(self) -> str:
        """What was read last."""
        return self._kept.decode(errors="replace")
