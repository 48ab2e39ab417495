"""A grading child process: its events, its limits of time and memory, and how it ended."""

import contextlib
import dataclasses
import json
import os
import queue
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any

from ..course.entities import Task
from ..course.findings import Claim, Finding
from ..course.registry import UsageError, load_course
from ..course.results import TaskResult
from .exits import Trace, cause_of_exit, trace_of
from .processes import CHECK_BEGINS, TICK, Cancelled, Stopwatch, Worker

TRACE = 1.0  # seconds to wait for a child's stack
SILENCE = 0.1  # seconds without output after which the stack is complete
DIAGNOSIS = 60.0  # seconds for the diagnosis of a failing task, beyond the task's own, on a busy machine
TAIL = 65536  # bytes kept of a child's output
START = 60.0  # seconds to start Python and import the tests
Tell = Callable[[TaskResult], None]
Results = dict[str, TaskResult]  # by task


@dataclasses.dataclass(frozen=True)
class Limits:
    """What one task may use: seconds, as `Stopwatch` counts them, and bytes of the child and all that it started."""

    seconds: float | None = None  # by default what the registry gives the task
    memory: int = 4 << 30

    def allowed(self, task: str) -> float:
        """Return the seconds of a task; for an import, which belongs to no task, those of most tasks."""
        return self.seconds or (load_course().task(task).seconds if task else Task.seconds)


class ChildProcess:
    """One child process and what it has reported so far."""

    def __init__(self, worker: Worker, job: dict[str, Any], package: Path, limits: Limits, cancelled: Event) -> None:
        self.limits = limits
        self.package = package
        self.task = ""  # in progress: this task, or else the import of this module
        self.module = ""
        self.check = ""  # the one that is running
        self.begun: list[str] = []
        self.ended = False
        self.why = ""  # why it ended too early, in words
        self.cause = ""  # the same in short: "time limit"
        self._left = False  # it announced its end
        self._ended_itself = False
        self._cancelled = cancelled
        self._worker = worker
        self._process = worker.process
        self._events: queue.Queue[dict[str, Any]] = queue.Queue()
        assert self._process.stdout
        self._words = Tail(self._process.stdout)
        self._trace = Tail(os.fdopen(worker.trace, "rb"))
        reader = Thread(target=self._read_events, args=(os.fdopen(worker.events, "rb"),), daemon=True)
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
        """Return the last line that pytest or the system wrote."""
        lines = [line.strip() for line in self._words.text().splitlines() if line.strip()]
        errors = [line for line in lines if "rror:" in line]
        return (errors or lines or ["it wrote nothing"])[-1]

    def watch(self, results: Results, begin: Callable[[], None], diagnosing: Tell, finished: Tell) -> None:
        """Take the events until the child has ended or has been ended; call `finished` with each complete result."""
        self._begin, self._diagnosing, self._finished = begin, diagnosing, finished
        stopwatch = Stopwatch()
        try:
            # Not by its pipes: processes that it started may hold them open, and it may close them itself.
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
                    self._end("time limit", f"still running after {allowed:g} s, the limit of a task")
                    return
                if self._worker.tree.resident() > self.limits.memory:
                    used = f"used more than {self.limits.memory / (1 << 30):.3g} GB of memory"
                    self._end("memory limit", f"{used}, the limit of a task")
                    return
            if not self.ended:
                self._settle()
                while not self._events.empty():
                    self._take(self._events.get(), results)
            if not self.ended:
                self._ended_itself = True
                by_python = self._left or bool(self._trace.text())
                status = self._process.wait()
                self.why, self.cause = cause_of_exit(status, by_python), "crash" if status < 0 else "exit"
        finally:
            self._worker.end()

    def _take(self, event: dict[str, Any], results: Results) -> None:
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
            case "diagnosis":
                self._diagnosing(results[self.task])
            case "begins":
                self.check = event["check"]
            case "check":
                self.check = ""
                result = results[event["task"]]
                result.passed += event["outcome"] == "passed"
                result.failed += event["outcome"] == "failed"
                if event["finding"]:
                    result.add(Finding.from_json(event["finding"]))
                    result.stopped = "your code skipped some" if event["outcome"] == "skipped" else result.stopped
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
                if event["status"] in (0, 1, 5):  # 5: nothing selected, which the caller sees
                    self.ended = True
                elif event["status"] == 4:
                    self._settle()
                    raise UsageError(f"pytest says: {self.last_words()}")
                # 2 and 3: interrupted from within. It ends now, and counts as a death in the task in progress.
                self._left = True

    def _settle(self) -> None:
        """Wait briefly for the child's end and for its output to arrive."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        for thread in self._threads:
            thread.join(1.0)

    def _end(self, cause: str, why: str) -> None:
        """Ask the child for its current line, then end it."""
        self._process.send_signal(signal.SIGUSR1)
        said, until = "", time.monotonic() + TRACE
        while not (said and said == self._trace.text()) and time.monotonic() < until:
            said = self._trace.text()
            time.sleep(SILENCE)
        self._worker.end()
        self.why, self.cause = why, cause

    @property
    def did(self) -> str:
        """What the task in progress did, completing "it uses 1.1.2, which ..."."""
        return "ended the tests" if self._ended_itself else "did not end"

    def trace(self) -> Trace:
        """Return where it was when it ended."""
        for thread in self._threads:
            thread.join(0.2)
        return trace_of(self._trace.text(), self.package)

    def wrote(self) -> str:
        """Return what native code wrote during its last check, if it ended by itself."""
        return self._words.text().rpartition(CHECK_BEGINS)[2] if self._ended_itself else ""


class Tail(Thread):
    """Read a pipe to its end and keep its last bytes, so that much output neither blocks the child nor fills memory."""

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
        """Return what was read last."""
        return self._kept.decode(errors="replace")
