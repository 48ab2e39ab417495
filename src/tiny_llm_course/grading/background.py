"""Grades in a thread of its own while keys are read and files are watched; only the newest request counts."""

import threading
from collections.abc import Callable, Sequence

from ..course.nouns import Task
from ..course.results import TaskResult
from ..course.selection import by_day
from .day import grade_day
from .limits import Cancelled
from .process import Limits
from .worker import Worker

Verdicts = list[TaskResult] | BaseException  # or why there are none
News = TaskResult | Verdicts  # of one task while others are still being graded, or of all


class Grader:
    """`tell` is called from its thread with a request's number and what came of it: of a task, and at last of all."""

    def __init__(self, limits: Limits, tell: Callable[[int, News], None]) -> None:
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
        """Begin to grade these tasks; what is being graded now is given up."""
        self.cancel()
        self._cancelled = threading.Event()
        self.number += 1
        worker, self._ready = self._ready, None
        # Not a daemon: whatever happens to us, its process is ended by it.
        thread = threading.Thread(target=self._run, args=(self.number, list(tasks), worker, self._cancelled))
        self._threads = [*(t for t in self._threads if t.is_alive()), thread]
        thread.start()

    def cancel(self) -> None:
        """Give up what is being graded."""
        self._cancelled.set()

    def close(self) -> None:
        """Leave no process behind."""
        self.cancel()
        for thread in self._threads:
            thread.join()
        if self._ready:
            self._ready.dismiss()
            self._ready = None

    def _run(self, number: int, tasks: list[Task], worker: Worker | None, cancelled: threading.Event) -> None:
        found: list[TaskResult] = []

        def finished(result: TaskResult) -> None:
            if not cancelled.is_set():
                self._tell(number, result)

        try:
            for day, its_tasks in by_day(tasks):
                found += grade_day(
                    day, tasks=its_tasks, limits=self._limits, worker=worker, cancelled=cancelled, finished=finished
                )
                worker = None
        except Cancelled:
            return
        except Exception as error:
            if not cancelled.is_set():
                self._tell(number, error)
            return
        if not cancelled.is_set():
            self._tell(number, found)
