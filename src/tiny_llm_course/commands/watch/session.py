"""One session of `watch`: keys, saves and verdicts come as events, one after another, and each changes the page."""

import contextlib
import os
import queue
import selectors
import shutil
import signal
import sys
import time
from collections.abc import Iterable

from ...course.nouns import Task
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
from ...terminal.screen import say
from . import page as watch_page
from .saves import saves, signature
from .work import Work

LOOK = 0.5  # seconds between two looks at the files, for where nobody reports a save
LINGER = 1.0  # seconds for which a task that has just passed is shown, before the next one
NO_READER = 141  # the exit code as shells have it for a closed pipe


class Session:
    """Some watched tasks, and what is known about them."""

    def __init__(self, tasks: list[Task], limits: Limits, poll: bool) -> None:
        self.work = Work(tasks)
        self.code = Code(LEARNER)
        self.graded: dict[str, str] = {}  # the fingerprints of the code that the results are for
        self.own: dict[str, str | None] = {}  # what of that is a task's own
        self.due: list[Task] = []  # what is being graded
        self.leave: float | None = None  # when to go on from a task that has just passed
        self.page = "task"  # or "hint" or "list"
        self.hint: tuple[Task, int] | None = None  # that was asked for last
        self.said = ""
        self._started = 0.0
        self._poll = poll
        self._mail: queue.SimpleQueue[tuple[int, Update] | None] = queue.SimpleQueue()
        self._bell, self._ringer = os.pipe()
        self._grader = Grader(limits, lambda number, verdicts: self._post((number, verdicts)))
        self._keys = Keys()

    def run(self) -> int:
        """Watch until q; gives the exit code. Ctrl-C is raised."""
        try:
            with self._keys, contextlib.nullcontext() if self._poll else saves(LEARNER, lambda: self._post(None)):
                self._loop()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return NO_READER
        finally:
            # A second Ctrl-C must not leave a process behind.
            before = signal.signal(signal.SIGINT, signal.SIG_IGN)
            self._grader.close()
            signal.signal(signal.SIGINT, before)
            if watch_page.on_screen():
                say()  # ends the line of the keys
        return 0

    def _loop(self) -> None:
        seen, size = signature(LEARNER), shutil.get_terminal_size()
        selector = selectors.SelectSelector()  # macOS's kqueue does not take every terminal
        selector.register(self._bell, selectors.EVENT_READ)
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
            if self._bell in ready:
                os.read(self._bell, 4096)
            while not self._mail.empty():
                if letter := self._mail.get():
                    self.take(*letter)
            if self._keys.fd in ready and not self.press(self._keys.read()):
                return
            if shutil.get_terminal_size() != size:
                size = shutil.get_terminal_size()
                self.turn_to(self.page)
            if (now := signature(LEARNER)) != seen:
                seen = now
                self.saved()
            if self.leave is not None and time.monotonic() >= self.leave:
                self.go_on()

    def _post(self, letter: tuple[int, Update] | None) -> None:
        """Called from the threads."""
        self._mail.put(letter)
        os.write(self._ringer, b"!")

    def grade(self, tasks: Iterable[Task]) -> None:
        """Begin to grade tasks; those that are being graded begin anew."""
        again = {task.id for task in [*self.due, *tasks]}
        self.due = [task for task in self.work.tasks if task.id in again]
        for task in self.due:
            self.graded[task.id] = self.code.with_needs(task)
            self.own.setdefault(task.id, self.code.fingerprint(task))
        self._started = time.monotonic()
        self.leave = None
        self.work.begin()
        self._grader.grade(self.due)
        self.turn_to("task")

    def saved(self) -> None:
        """A file was saved: grade the tasks whose code is another one now, unless it cannot be read."""
        problems = self.code.problems(self.work.tasks)
        self.code = Code(LEARNER)
        readable = [task for task in self.work.tasks if not self.code.problems([task])]
        if self.due:  # who knows which of the two files they have imported
            self._grader.cancel()
            for task in self.due:
                self.graded.pop(task.id)
            self.due = []
        if changed := [task for task in readable if self.graded.get(task.id) != self.code.with_needs(task)]:
            self.work.edited = {task.id for task in changed if self.own.get(task.id) != self.code.fingerprint(task)}
            self.grade(changed)
        elif problems or self.code.problems(self.work.tasks):
            self.turn_to("task")

    def take(self, number: int, news: Update) -> None:
        """Verdicts came; those of a request that was given up do not count."""
        if number != self._grader.number or not self.due:
            return
        if isinstance(news, TaskResult):  # what was saved comes before what uses it, and need not wait for that
            self.work.see([news])
            self.turn_to(self.page)
            return
        if isinstance(news, UsageError):
            self.said = str(news)
        elif isinstance(news, BaseException):
            raise news
        else:
            remembered = attempts.record(news)
            self.work.see(news)
            self.own |= {task.id: self.code.fingerprint(task) for task in self.due}
            for result in news:
                if result.finding and result.finding.place:  # whatever is saved next may have mended the file
                    self.graded.pop(result.task.id, None)
            ids = ", ".join(task.id for task in self.due)
            self.said = f"Graded {ids} in {time.monotonic() - self._started:.1f} s, at {time.strftime('%H:%M:%S')}."
            if not remembered:
                self.said += f"\n{progress.FORGOTTEN}"
            if self.work.passed and self.work.focus() and self.page == "task":  # a hint is not taken away
                self.leave = time.monotonic() + LINGER
        self.due = []
        self.turn_to(self.page)

    def press(self, key: str) -> bool:
        """Do what a key says; whether to go on. A key without a meaning goes back to the task.

        From a task that has just passed, n alone goes on: whoever presses another key wants to stay.
        """
        lingers, self.leave = self.leave is not None, None
        match key:
            case "q":
                return False
            case "\n":
                self.grade(self.work.tasks)
            case "n":
                self.go_on()
            case "p" if not lingers:
                self.work.go_back()
                self.turn_to("task")
            case "h":
                focus = self.work.focus()
                self.hint = (focus, hints.next_rung(focus)) if focus else None
                self.turn_to("hint")
            case _:
                self.turn_to("list" if key == "l" else "task")
        return True

    def go_on(self) -> None:
        """To the next task, or to the next day."""
        self.leave = None
        if next_day := self.work.go_on():
            self.work, self.graded, self.own, self.due = Work(next_day), {}, {}, []
            self.grade(next_day)
        else:
            self.turn_to("task")

    def turn_to(self, page: str) -> None:
        """Show a page: the task to work on, its next hint, or the list."""
        self.page = page
        if self.due and not watch_page.on_screen():
            return  # the verdict comes soon, and nothing can be taken back
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
        say(f"Grading {', '.join(task.id for task in self.due)} ..." if self.due else self.said)
        focus = self.work.focus()
        if self.page == "task" and self.work.chosen in self.work.unfinished() and focus and focus != self.work.chosen:
            say(f"{focus.id} first, which you have just changed and which fails; then on with {self.work.chosen.id}.")

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
