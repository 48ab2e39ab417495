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
from ...course.results import SETTLED, TaskResult
from ...course.selection import by_day
from ...grading.background import Grader, News
from ...grading.process import Limits
from ...grading.report import faults, report_fault, report_task
from ...learner import attempts, hints, progress
from ...paths import LEARNER, ROOT
from ...source.code import Code
from ...terminal.keys import Keys
from ...terminal.screen import say
from . import page as watch_page
from .saves import Saves, signature

LOOK = 0.5  # seconds between two looks at the files, for where nobody reports a save
NO_READER = 141  # the exit code as shells have it for a closed pipe
PACKAGE = LEARNER.relative_to(ROOT).as_posix()


class Session:
    """Some watched tasks, and what is known about them."""

    def __init__(self, tasks: list[Task], limits: Limits, poll: bool) -> None:
        self.tasks = tasks
        self.results: dict[str, TaskResult] = {}
        self.code = Code(LEARNER)
        self.graded: dict[str, str] = {}  # the fingerprints of the code that the results are for
        self.own: dict[str, str | None] = {}  # what of that is a task's own
        self.due: list[Task] = []  # what is being graded
        self.chosen: Task | None = None  # by the key n
        self.edited: set[str] = set()  # the tasks whose own code was changed since the verdicts before
        self.page = "task"  # or "hint" or "list"
        self.hint: tuple[Task, int] | None = None  # that was asked for last
        self.said = ""
        self._started = 0.0
        self._poll = poll
        self._mail: queue.SimpleQueue[tuple[int, News] | None] = queue.SimpleQueue()
        self._bell, self._ringer = os.pipe()
        self._grader = Grader(limits, lambda number, verdicts: self._post((number, verdicts)))
        self._keys = Keys()

    def run(self) -> int:
        """Watch until q; gives the exit code. Ctrl-C is raised."""
        try:
            with self._keys, contextlib.nullcontext() if self._poll else Saves(LEARNER, lambda: self._post(None)):
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
        self.grade(self.tasks)
        while True:
            ready = [key.fd for key, _ in selector.select(LOOK / 2 if self._poll else LOOK)]
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

    def _post(self, letter: tuple[int, News] | None) -> None:
        """Called from the threads."""
        self._mail.put(letter)
        os.write(self._ringer, b"!")

    def grade(self, tasks: Iterable[Task]) -> None:
        """Begin to grade tasks; those that are being graded begin anew."""
        again = {task.id for task in [*self.due, *tasks]}
        self.due = [task for task in self.tasks if task.id in again]
        for task in self.due:
            self.graded[task.id] = self.code.with_needs(task)
            self.own.setdefault(task.id, self.code.fingerprint(task))
        self._started = time.monotonic()
        self._grader.grade(self.due)
        self.turn_to("task")

    def saved(self) -> None:
        """A file was saved: grade the tasks whose code is another one now, unless it cannot be read."""
        problems = self.code.problems(self.tasks)
        self.code = Code(LEARNER)
        readable = [task for task in self.tasks if not self.code.problems([task])]
        if self.due:  # who knows which of the two files they have imported
            self._grader.cancel()
            for task in self.due:
                self.graded.pop(task.id)
            self.due = []
        if changed := [task for task in readable if self.graded.get(task.id) != self.code.with_needs(task)]:
            self.edited = {task.id for task in changed if self.own.get(task.id) != self.code.fingerprint(task)}
            self.grade(changed)
        elif problems or self.code.problems(self.tasks):
            self.turn_to("task")

    def take(self, number: int, news: News) -> None:
        """Verdicts came; those of a request that was given up do not count."""
        if number != self._grader.number or not self.due:
            return
        if isinstance(news, TaskResult):  # what was saved comes before what uses it, and need not wait for that
            self.results[news.task.id] = news
            self.turn_to(self.page)
            return
        if isinstance(news, UsageError):
            self.said = str(news)
        elif isinstance(news, BaseException):
            raise news
        else:
            remembered = attempts.record(news)
            self.results |= {result.task.id: result for result in news}
            self.own |= {task.id: self.code.fingerprint(task) for task in self.due}
            for result in news:
                if result.finding and result.finding.place:  # whatever is saved next may have mended the file
                    self.graded.pop(result.task.id, None)
            ids = ", ".join(task.id for task in self.due)
            self.said = f"Graded {ids} in {time.monotonic() - self._started:.1f} s, at {time.strftime('%H:%M:%S')}."
            if not remembered:
                self.said += f"\n{progress.FORGOTTEN}"
        self.due = []
        self.turn_to(self.page)

    def press(self, key: str) -> bool:
        """Do what a key says; whether to go on. A key without a meaning goes back to the task."""
        match key:
            case "q":
                return False
            case "\n":
                self.grade(self.tasks)
            case "n":
                self.go_on()
            case "h":
                focus = self.focus()
                self.hint = (focus, hints.next_rung(focus)) if focus else None
                self.turn_to("hint")
            case _:
                self.turn_to("list" if key == "l" else "task")
        return True

    def unfinished(self) -> list[Task]:
        """The watched tasks that have not passed."""
        return [t for t in self.tasks if t.id not in self.results or self.results[t.id].status not in SETTLED]

    def focus(self) -> Task | None:
        """The task to work on: of those just edited the first that fails, else the chosen one, else the first failing.

        Failing by itself comes before failing by another task's fault; where nothing fails, the first unfinished one.
        """
        unfinished = self.unfinished()
        known = [self.results[task.id] for task in unfinished if task.id in self.results]
        failing = [result.task for result in known if result.status == "failed"]
        own = [result.task for result in known if result.status == "failed" and not result.culprits]
        edited = [task for task in own if task.id in self.edited]
        chosen = [self.chosen] if self.chosen in unfinished else []
        first = chosen if self.chosen in edited else edited
        return next(iter([*first, *chosen, *own, *failing, *unfinished]), None)

    def go_on(self) -> None:
        """To the next unfinished task, or to the next day that has one, or back to the first."""
        unfinished, focus = self.unfinished(), self.focus()
        self.edited = set()
        if self.chosen in unfinished and focus != self.chosen:  # it has waited for what was just changed
            self.turn_to("task")
            return
        later = unfinished[unfinished.index(focus) + 1 :] if focus else []
        course = load_course().tasks()
        last = max(course.index(task) for task in self.tasks)
        others = [*course[last + 1 :], *(task for task in course[:last] if task not in self.tasks)]
        if later:
            self.chosen = later[0]
        elif next_day := unfinished_day(course[last + 1 :]) or unfinished_day(others):
            self.tasks, self.results, self.graded, self.own, self.due, self.chosen = next_day, {}, {}, {}, [], None
            self.grade(self.tasks)
            return
        else:
            self.chosen = unfinished[0] if unfinished else None
        self.turn_to("task")

    def turn_to(self, page: str) -> None:
        """Show a page: the task to work on, its next hint, or the list."""
        self.page = page
        if self.due and not watch_page.on_screen():
            return  # the verdict comes soon, and nothing can be taken back
        focus = self.focus()
        everything = f"pdm run test {focus.id if focus else self.tasks[0].id}"
        watch_page.show(self._head, self._body, everything, self._keys.fd is not None)

    def _head(self) -> None:
        day = by_day(self.tasks)[0][0]
        whole_day = self.tasks == list(day.tasks)
        week = load_course().week(day.week)
        title = f"week {day.week}, day {day.number}: {day.title}" if whole_day else ", ".join(t.id for t in self.tasks)
        if self.tasks == [task for each in week.days for task in each.tasks]:
            title = f"week {week.number}: {week.title}"
        say(f"Watching {title}  ({PACKAGE})", bold=True)
        watch_page.overview(self.tasks, self.results)
        say(f"Grading {', '.join(task.id for task in self.due)} ..." if self.due else self.said)
        focus = self.focus()
        if self.page == "task" and self.chosen in self.unfinished() and focus and focus != self.chosen:
            say(f"{focus.id} first, which you have just changed and which fails; then on with {self.chosen.id}.")

    def _body(self) -> None:
        focus = self.focus()
        if self.page == "list":
            watch_page.board(self.tasks, self.results)
        elif problems := self.code.problems(self.tasks):
            watch_page.problems(problems, self.tasks)
        elif focus is None:
            borrowed = [task.id for task in self.tasks if self.results[task.id].status == "borrowed"]
            if borrowed:
                say(
                    f"⇢ {', '.join(borrowed)}: borrowed, and not graded (pdm run return {borrowed[0]})", colour="yellow"
                )
            absent = [self.results[task.id] for task in self.tasks if self.results[task.id].status == "not run here"]
            for result in absent:
                report_task(result, PACKAGE)
            if len(borrowed) + len(absent) < len(self.tasks):
                say("The rest has passed." if borrowed or absent else "All of it has passed.", colour="green")
            following = unfinished_day(t for t in load_course().tasks() if t not in self.tasks)
            if following:
                say(f"Next: pdm run watch {following[0].week}.{following[0].day}")
        elif self.page == "hint" and self.hint:
            hints.show(*self.hint, another="h · back: any other key")
        elif focus.id in self.results:
            for fault in faults(self.results.values()).values():
                report_fault(fault)
            report_task(self.results[focus.id], PACKAGE)


def unfinished_day(tasks: Iterable[Task]) -> list[Task]:
    """All tasks of the first day of which one of these is unfinished; none if all are done."""
    for day, its_tasks in by_day(list(tasks)):
        if not all(progress.settled(task) for task in its_tasks):
            return list(day.tasks)
    return []
