"""The watched tasks, their results, and which one is current."""

from collections.abc import Iterable

from ...course.entities import Task
from ...course.registry import load_course
from ...course.results import SETTLED, TaskResult
from ...course.selection import by_day
from ...learner import progress


class Work:
    """The watched tasks, their results so far, and the current task."""

    def __init__(self, tasks: list[Task]) -> None:
        self.tasks = tasks
        self.results: dict[str, TaskResult] = {}
        self.chosen: Task | None = None  # by the keys n and p, or by advancing from a passed task
        self.edited: set[str] = set()  # tasks whose own code has changed since the previous verdicts
        self.passed: Task | None = None  # the task that has just passed, while it is shown
        self._at_hand: Task | None = None  # the focus, if it had a verdict, when grading started

    def unfinished(self) -> list[Task]:
        """Return the watched tasks that have not passed."""
        return [t for t in self.tasks if t.id not in self.results or self.results[t.id].status not in SETTLED]

    def focus(self) -> Task | None:
        """Return the current task: just edited and failing, chosen, failing (own fault first), or unfinished."""
        unfinished = self.unfinished()
        known = [self.results[task.id] for task in unfinished if task.id in self.results]
        failing = [result.task for result in known if result.status == "failed"]
        own = [result.task for result in known if result.status == "failed" and not result.culprits]
        edited = [task for task in own if task.id in self.edited]
        chosen = [self.chosen] if self.chosen in unfinished else []
        first = chosen if self.chosen in edited else edited
        return next(iter([*first, *chosen, *own, *failing, *unfinished]), None)

    def begin(self) -> None:
        """Note the current task when grading starts."""
        focus = self.focus()
        self.passed, self._at_hand = None, focus if focus and focus.id in self.results else None

    def update(self, results: Iterable[TaskResult]) -> None:
        """Store verdicts. If the current task has passed, keep it on screen and choose the next one."""
        self.results |= {result.task.id: result for result in results}
        if self._at_hand and self.results[self._at_hand.id].status == "passed":
            self.passed, unfinished = self._at_hand, self.unfinished()
            if self.chosen not in unfinished:
                self.chosen = next((task for task in self._after(self.passed) if task in unfinished), None)

    def advance(self) -> list[Task]:
        """Advance to the next unfinished task, or wrap around; return the next day's tasks once none is left here."""
        unfinished, focus = self.unfinished(), self.focus()
        waiting = self.chosen in unfinished and focus != self.chosen  # for the task just edited
        if (self.passed or waiting) and focus:
            if not self.passed:
                self.edited = set()
            self.passed = None
            return []
        self.passed, self.edited = None, set()
        later = unfinished[unfinished.index(focus) + 1 :] if focus else []
        if later:
            self.chosen = later[0]
        elif following := self.next_day():
            return following
        else:
            self.chosen = unfinished[0] if unfinished else None
        return []

    def go_back(self) -> None:
        """Go back to the previous unfinished task, if there is one."""
        here = self.passed or self.focus()
        unfinished = self.unfinished()
        if earlier := [task for task in unfinished if here and task not in [here, *self._after(here)]]:
            self.chosen = earlier[-1]
        self.passed, self.edited = None, set()

    def next_day(self) -> list[Task]:
        """Return the tasks of the next day with an unfinished one, wrapping around; none if there is none."""
        course, watched = load_course().tasks(), {task.id for task in self.tasks}
        last = max(number for number, task in enumerate(course) if task.id in watched)
        return unfinished_day(course[last + 1 :]) or unfinished_day(t for t in course[:last] if t.id not in watched)

    def _after(self, task: Task) -> list[Task]:
        return self.tasks[self.tasks.index(task) + 1 :]


def unfinished_day(tasks: Iterable[Task]) -> list[Task]:
    """Return all tasks of the first day of which one of these is unfinished; none if all are done."""
    for day, its_tasks in by_day(list(tasks)):
        if not all(progress.settled(task) for task in its_tasks):
            return list(day.tasks)
    return []
