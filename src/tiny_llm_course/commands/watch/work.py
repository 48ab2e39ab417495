"""What is watched, what is known about it, and which task is at hand."""

from collections.abc import Iterable

from ...course.nouns import Task
from ...course.registry import load_course
from ...course.results import SETTLED, TaskResult
from ...course.selection import by_day
from ...learner import progress


class Work:
    """Some tasks, their results so far, and the one that is worked on."""

    def __init__(self, tasks: list[Task]) -> None:
        self.tasks = tasks
        self.results: dict[str, TaskResult] = {}
        self.chosen: Task | None = None  # by the keys n and p, or by going on from one that has passed
        self.edited: set[str] = set()  # the tasks whose own code was changed since the verdicts before
        self.passed: Task | None = None  # the task that was worked on and has just passed, while it is shown
        self._at_hand: Task | None = None  # what was in focus, with a verdict, when grading began

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

    def begin(self) -> None:
        """Grading begins."""
        focus = self.focus()
        self.passed, self._at_hand = None, focus if focus and focus.id in self.results else None

    def see(self, results: Iterable[TaskResult]) -> None:
        """Verdicts came. If what was at hand has passed, it is shown; the next one is then the one after it."""
        self.results |= {result.task.id: result for result in results}
        if self._at_hand and self.results[self._at_hand.id].status == "passed":
            self.passed, unfinished = self._at_hand, self.unfinished()
            if self.chosen not in unfinished:
                self.chosen = next((task for task in self._after(self.passed) if task in unfinished), None)

    def go_on(self) -> list[Task]:
        """To the next unfinished task, or back to the first; gives the next day that has one, if this one has none."""
        unfinished, focus = self.unfinished(), self.focus()
        waiting = self.chosen in unfinished and focus != self.chosen  # for what was just changed
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
        """To the unfinished task before this one, if there is one."""
        here = self.passed or self.focus()
        unfinished = self.unfinished()
        if earlier := [task for task in unfinished if here and task not in [here, *self._after(here)]]:
            self.chosen = earlier[-1]
        self.passed, self.edited = None, set()

    def next_day(self) -> list[Task]:
        """The tasks of the next day that has an unfinished one, or of the first such day; none if there is none."""
        course, watched = load_course().tasks(), {task.id for task in self.tasks}
        last = max(number for number, task in enumerate(course) if task.id in watched)
        return unfinished_day(course[last + 1 :]) or unfinished_day(t for t in course[:last] if t.id not in watched)

    def _after(self, task: Task) -> list[Task]:
        return self.tasks[self.tasks.index(task) + 1 :]


def unfinished_day(tasks: Iterable[Task]) -> list[Task]:
    """All tasks of the first day of which one of these is unfinished; none if all are done."""
    for day, its_tasks in by_day(list(tasks)):
        if not all(progress.settled(task) for task in its_tasks):
            return list(day.tasks)
    return []
