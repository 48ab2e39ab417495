"""The learner's progress: the state of every task, from the learner's files and the stored verdicts."""

import enum
import itertools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..course.entities import Task
from ..course.registry import load_course
from ..course.requirements import in_words, missing
from ..doctor.git import restoring
from ..paths import LEARNER, ROOT
from ..source.code import Code, holds_stub, where
from . import progress

PACKAGE = LEARNER.relative_to(ROOT).as_posix()


class State(enum.Enum):
    """The state of a task; the value is its mark."""

    DONE = "✓"
    FAILING = "✗"
    NOT_STARTED = "○"
    BORROWED = "⇢"
    TO_GRADE = "~"
    NOT_HERE = "-"


class Standing(NamedTuple):
    """The state of a task, as a mark and in words."""

    state: State
    words: str
    blocker: str = ""  # the id of a dependency that is not started
    shown_by: str = ""  # the id of a task whose checks reveal its fault


def standings() -> dict[str, Standing]:
    """Return every task's standing by its id, in the order of the course."""
    borrowed, code = progress.borrowed(), Code(LEARNER)
    return {task.id: _standing(task, borrowed, code) for task in load_course().tasks()}


def _standing(task: Task, borrowed: frozenset[str], written: Code) -> Standing:
    if task.id in borrowed:
        return Standing(State.BORROWED, "borrowed")
    known = progress.verdict(task.id)
    code = written.fingerprint(task) if known else None
    same = known is not None and known.code == code
    if known and same and known.status == "passed":
        if later := progress.blamed_by(task.id, code):
            return Standing(State.FAILING, f"passes its own checks, but {later} shows that it is wrong", shown_by=later)
        return Standing(State.DONE, "done")
    if absent := missing(task.requires):
        return Standing(State.NOT_HERE, f"not run here: needs {in_words(absent)}")
    if not _has_file(task):
        return Standing(State.NOT_STARTED, "its file is missing")
    if holds_stub(task, LEARNER) and not same:
        return Standing(State.NOT_STARTED, "optional" if task.optional else "not started")
    if not known:
        # Grading would report just this, and lead the learner in a circle.
        for need in load_course().needs(task.id):
            if need not in borrowed and holds_stub(used := load_course().task(need), LEARNER) and not used.optional:
                return Standing(State.TO_GRADE, f"written, waits for {need}", need)
        return Standing(State.TO_GRADE, "written, not graded yet")
    if not same:
        return Standing(State.TO_GRADE, f"changed since it {known.status}")
    if not known.culprits:
        return Standing(State.FAILING, "failing")
    names = " and ".join(known.culprits)
    course = load_course()
    if all(written.fingerprint(course.task(culprit)) == code for culprit, code in known.culprits.items()):
        return Standing(State.FAILING, f"fails because of {names}")
    return Standing(State.TO_GRADE, f"failed because of {names}, changed since")


def minutes_left(tasks: Iterable[Task], board: Mapping[str, Standing]) -> int:
    """Return the planned minutes of required tasks that are not done or borrowed and can run here."""
    nothing_to_do = (State.DONE, State.BORROWED, State.NOT_HERE)
    return sum(task.minutes for task in tasks if board[task.id].state not in nothing_to_do and not task.optional)


def next_task(board: Mapping[str, Standing]) -> Task | None:
    """Return a failing or ungraded task, one not started, or a borrowed one, that can run here; optional ones last."""
    course = load_course()
    states = ((State.FAILING, State.TO_GRADE), (State.NOT_STARTED,), (State.BORROWED,))
    tasks = [task for task in course.tasks() if board[board[task.id].blocker or task.id].state is not State.NOT_HERE]
    for optional, these in itertools.product((False, True), states):
        for task in tasks:
            if task.optional == optional and board[task.id].state in these:
                return course.task(board[task.id].blocker or task.id)
    return None


def next_step(board: Mapping[str, Standing]) -> tuple[str, str]:
    """Return the reason for the next step, and its one command."""
    task = next_task(board)
    if task is None:
        done = "everything that can run here" if any(s.state is State.NOT_HERE for s in board.values()) else "all"
        return f"{done} is done, run your engine", 'pdm run generate "Once upon a time"'
    match board[task.id].state:
        case State.BORROWED:
            return f"{task.label} is still borrowed: write your own", f"pdm run return {task.id}"
        case State.NOT_STARTED if not _has_file(task):
            (command,) = restoring([LEARNER / task.target.file])
            return f"{task.label}: {board[task.id].words}", command
        case State.NOT_STARTED:
            kind = " (optional)" if task.optional else ""
            return f"write {task.label}{kind}, {where(task.target, PACKAGE)}", f"pdm run test {task.id}"
        case State.FAILING:
            grading = board[task.id].shown_by or task.id
            return f"fix {task.label}, {where(task.target, PACKAGE)}", f"pdm run test {grading}"
    day = load_course().day_of(task)
    others = [other for other in day.tasks if board[other.id].state is State.TO_GRADE and not board[other.id].blocker]
    if len(others) > 1:
        return f"{len(others)} tasks of {day.called} wait for a verdict", f"pdm run test {day.name}"
    return f"{task.label}: {board[task.id].words}", f"pdm run test {task.id}"


def _has_file(task: Task) -> bool:
    return (LEARNER / task.target.file).exists()
