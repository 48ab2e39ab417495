"""A session of `watch`: an event loop over keys, saves and verdicts, each of which may change the page."""

import contextlib
import os
import queue
import selectors
import shutil
import signal
import sys
import time
from collections.abc import Iterable

from ...course.entities import Task
from ...course.registry import UsageError, load_course
from ...course.results import TaskResult
from ...course.selection import by_day
from ...grading.day import Grader, Update
from ...grading.report import faults, report_fault, report_task
from ...grading.supervisor import Limits
from ...learner import attempts, hints, progress
from ...paths import LEARNER
from ...source.code import Code
from ...terminal.keys import Keys
from ...terminal.screen import NO_READER, say
from . import page as watch_page
from .saves import saves, signature
from .work import Work

LOOK = 0.5  # seconds between polls of the files, for systems without save events
LINGER = 1.0  # seconds for which a passed task stays on screen


class Session:
    """The watched tasks and what is known about them."""

    def __init__(self, tasks: list[Task], limits: Limits, poll: bool) -> None:
        self.work = Work(tasks)
        self.code = Code(LEARNER)
        self.graded: dict[str, str] = {}  # code fingerprints (with dependencies) of the results
        self.own: dict[str, str | None] = {}  # fingerprints of the task's own code
        self.due: list[Task] = []  # being graded
        self.leave: float | None = None  # when to leave a task that has just passed
        self.page = "task"  # or "hint" or "list"
        self.hint: tuple[Task, int] | None = None  # the last one shown
        self.status = ""
        self._started = 0.0
        self._poll = poll
        self._updates: queue.SimpleQueue[tuple[int, Update] | None] = queue.SimpleQueue()
        self._wake_read, self._wake_write = os.pipe()
        self._grader = Grader(limits, lambda number, verdicts: self._post((number, verdicts)))
        self._keys = Keys()

    def run(self) -> int:
        """Watch until q, and return the exit code. Ctrl-C is raised."""
        try:
            with self._keys, contextlib.nullcontext() if self._poll else saves(LEARNER, lambda: self._post(None)):
                self._loop()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return NO_READER
        finally:
            # A second Ctrl-C must not leave a process running.
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._grader.close()
            signal.signal(signal.SIGINT, before)
            if watch_page.on_screen():
                say()  # ends the line with the keys
        return 0

    def _loop(self) -> None:
        seen, size = signature(LEARNER), shutil.get_terminal_size()
        selector = selectors.SelectSelector()  # macOS's kqueue does not take every terminal
        selector.register(self._wake_read, selectors.EVENT_READ)
        if self._keys.fd is not None:
            selector.register(self._keys.fd, selectors.EVENT_READ)
        self.grade(self.work.tasks)
        while True:
            wait = LOOK / 2 if self._poll else LOOK
            if self.leave is not None:
                wait = min(wait, max(0.0, self.leave - time.monotonic()))
            ready = [key.fd for key, _ in selector.select(wait)]
            if not ready:
                self._grader.prepare()
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
            while not self._updates.empty():
                if update := self._updates.get():
                    self.receive(*update)
            if self._keys.fd in ready and not self.handle_key(self._keys.read()):
                return
            if shutil.get_terminal_size() != size:
                size = shutil.get_terminal_size()
                self.show(self.page)
            if (now := signature(LEARNER)) != seen:
                seen = now
                self.saved()
            if self.leave is not None and time.monotonic() >= self.leave:
                self.advance()

    def _post(self, update: tuple[int, Update] | None) -> None:
        """Queue an update and wake the loop. Called from threads."""
        self._updates.put(update)
        os.write(self._wake_write, b"!")

    def grade(self, tasks: Iterable[Task]) -> None:
        """Start grading these tasks, and restart those already being graded."""
        again = {task.id for task in [*self.due, *tasks]}
        self.due = [task for task in self.work.tasks if task.id in again]
        for task in self.due:
            self.graded[task.id] = self.code.with_needs(task)
            self.own.setdefault(task.id, self.code.fingerprint(task))
        self._started = time.monotonic()
        self.leave = None
        self.work.begin()
        self._grader.grade(self.due)
        self.show("task")

    def saved(self) -> None:
        """Grade the tasks whose code a save has changed, unless it cannot be read."""
        problems = self.code.problems(self.work.tasks)
        self.code = Code(LEARNER)
        readable = [task for task in self.work.tasks if not self.code.problems([task])]
        if self.due:  # the graded process may have imported either version
            self._grader.cancel()
            for task in self.due:
                self.graded.pop(task.id)
            self.due = []
        if changed := [task for task in readable if self.graded.get(task.id) != self.code.with_needs(task)]:
            self.work.edited = {task.id for task in changed if self.own.get(task.id) != self.code.fingerprint(task)}
            self.grade(changed)
        elif problems or self.code.problems(self.work.tasks):
            self.show("task")

    def receive(self, number: int, update: Update) -> None:
        """Take an update of the grader; those of a cancelled request are ignored."""
        if number != self._grader.number or not self.due:
            return
        if isinstance(update, TaskResult):  # early verdict on the saved task, before those of its users
            self.work.update([update])
            self.show(self.page)
            return
        if isinstance(update, UsageError):
            self.status = str(update)
        elif isinstance(update, BaseException):
            raise update
        else:
            remembered = attempts.record(update)
            self.work.update(update)
            self.own |= {task.id: self.code.fingerprint(task) for task in self.due}
            for result in update:
                if result.finding and result.finding.place:  # an import error: any later save may fix it
                    self.graded.pop(result.task.id, None)
            ids = ", ".join(task.id for task in self.due)
            self.status = f"Graded {ids} in {time.monotonic() - self._started:.1f} s, at {time.strftime('%H:%M:%S')}."
            if not remembered:
                self.status += f"\n{progress.FORGOTTEN}"
            if self.work.passed and self.work.focus() and self.page == "task":  # a hint stays on screen
                self.leave = time.monotonic() + LINGER
        self.due = []
        self.show(self.page)

    def handle_key(self, key: str) -> bool:
        """Act on a key; return False on q. After a pass, any key but n keeps the page; unknown keys show the task."""
        lingers, self.leave = self.leave is not None, None
        match key:
            case "q":
                return False
            case "\n":
                self.grade(self.work.tasks)
            case "n":
                self.advance()
            case "p" if not lingers:
                self.work.go_back()
                self.show("task")
            case "h":
                focus = self.work.focus()
                self.hint = (focus, hints.next_rung(focus)) if focus else None
                self.show("hint")
            case _:
                self.show("list" if key == "l" else "task")
        return True

    def advance(self) -> None:
        """Advance to the next task, or to the next day."""
        self.leave = None
        if next_day := self.work.advance():
            self.work, self.graded, self.own, self.due = Work(next_day), {}, {}, []
            self.grade(next_day)
        else:
            self.show("task")

    def show(self, page: str) -> None:
        """Show a page: the current task, its next hint, or the list."""
        self.page = page
        if self.due and not watch_page.on_screen():
            return  # the verdict follows soon, and printed lines cannot be erased
        focus = self.work.focus()
        everything = f"pdm run test {focus.id if focus else self.work.tasks[0].id}"
        watch_page.show(self._head, self._body, everything, self._keys.fd is not None)

    def _head(self) -> None:
        day = by_day(self.work.tasks)[0][0]
        whole_day = self.work.tasks == list(day.tasks)
        week = load_course().week(day.week)
        title = f"week {day.week}, {day.called}: {day.title}" if whole_day else ", ".join(t.id for t in self.work.tasks)
        if self.work.tasks == [task for each in week.days for task in each.tasks]:
            title = f"week {week.number}: {week.title}"
        say(f"Watching {title}  ({watch_page.PACKAGE})", bold=True)
        watch_page.overview(self.work.tasks, self.work.results)
        say(f"Grading {', '.join(task.id for task in self.due)} ..." if self.due else self.status)
        focus = self.work.focus()
        if self.page == "task" and self.work.chosen in self.work.unfinished() and focus and focus != self.work.chosen:
            say(f"{focus.id} first: you just changed it and it fails. Then {self.work.chosen.id}.")

    def _body(self) -> None:
        focus, passed = self.work.focus(), self.work.passed
        if self.page == "list":
            watch_page.board(self.work.tasks, self.work.results)
        elif problems := self.code.problems(self.work.tasks):
            watch_page.problems(problems, self.work.tasks)
        elif self.page == "hint" and self.hint:
            hints.show(*self.hint, another="h · back: any other key")
        elif passed and focus:
            report_task(self.work.results[passed.id], watch_page.PACKAGE)
            how = ", in a second; n goes now, p stays" if self.leave is not None else "; n goes there"
            say(f"{passed.id} passed. Next: {focus.id}{how if self._keys.fd is not None else ''}.")
        elif focus is None:
            if passed:
                report_task(self.work.results[passed.id], watch_page.PACKAGE)
            watch_page.all_done([*self.work.results.values()], self.work.next_day(), self._keys.fd is not None)
        elif focus.id in self.work.results:
            for fault in faults(self.work.results.values()).values():
                report_fault(fault)
            report_task(self.work.results[focus.id], watch_page.PACKAGE)
