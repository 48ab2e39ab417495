"""`pdm run status`: the progress board."""

import sys
import textwrap
from collections.abc import Mapping, Sequence

import click

from ..course.entities import Day, Task, Week
from ..course.file_paths import quiz_path
from ..course.registry import load_course
from ..learner import quizzes
from ..learner.board import Standing, State, minutes_left, next_step, next_task, standings
from ..terminal.screen import USUAL, columns, say
from ..terminal.wrapping import cut
from .options import named_tasks, names_of_tasks

NARROW, WIDE = 40, 100  # columns of the board, at least and at most
COLORS = {State.DONE: "green", State.FAILING: "red", State.BORROWED: "cyan", State.TO_GRADE: "yellow"}
# A day's mark is the first of these that a task has; from BORROWED on, no work is left.
PRECEDENCE = (State.FAILING, State.TO_GRADE, State.NOT_STARTED, State.BORROWED, State.NOT_HERE)
LEGEND = {State.DONE: "done", State.FAILING: "failing", State.NOT_STARTED: "not started", State.BORROWED: "borrowed"}
LEGEND |= {State.TO_GRADE: "to be graded", State.NOT_HERE: "not run here"}
COUNT, TIME = 11, 10  # columns of "7 of 7 done" and of "1 h 40 min"
LEAST_TITLE, NBSP = 16, "\u00a0"


@click.command()
@names_of_tasks
@click.option("--all", "everything", is_flag=True, help="Show the tasks of all days.")
def status(names: tuple[str, ...], week: int | None, day: int | None, everything: bool) -> int:
    """Show your progress by week and day, the tasks of the current day (or of those named), and the next step."""
    course, board = load_course(), standings()
    shown = course.tasks() if everything else named_tasks(names, week, day, "status")
    unfolded = {(task.week, task.day) for task in shown or [next_task(board) or course.tasks()[-1]]}
    width = min(max(columns(sys.stdout) or USUAL, NARROW), WIDE)
    for number, its_week in enumerate(course.weeks):
        if number:
            say()
        _show_week(its_week, board, unfolded, width)
    seen = {standing.state for standing in board.values()}
    legend = "  ".join(f"{mark.value} {words}".replace(" ", NBSP) for mark, words in LEGEND.items() if mark in seen)
    legend = "\n".join(textwrap.wrap(legend, width, break_on_hyphens=False)).replace(NBSP, " ")
    why, command = next_step(board)
    say(f"\n{legend}\n")
    say(f"Next: {why}\n      {command}", bold=True)
    return 0


def _show_week(week: Week, board: Mapping[str, Standing], unfolded: set[tuple[int, int]], width: int) -> None:
    tasks = [task for day in week.days for task in day.tasks]
    say(f"Week {week.number}: {week.title}", bold=True, cut=True)
    plural = "s" * (len(_counted(tasks, board)) != 1)
    borrowed = sum(board[task.id].state is State.BORROWED for task in tasks)
    lent = f", {borrowed} borrowed" * bool(borrowed)
    say(f"  {_done(tasks, board)} task{plural} done{lent}{_left(tasks, board, ', ', ' to go')}")
    if len(load_course().weeks) > 1 and not any(number == week.number for number, _ in unfolded):
        return
    for day in week.days:
        _show_day(day, board, width)
        if (day.week, day.number) in unfolded:
            for task in day.tasks:
                _show_task(task, board[task.id], width)
            if quiz_path(day).is_file():
                taken = quizzes.last_round(day)
                say(f"      Quiz: {taken.words if taken else f'pdm run quiz {day.name}'}", dim=True)


def _show_day(day: Day, board: Mapping[str, Standing], width: int) -> None:
    states = [board[task.id].state for task in day.tasks]
    counted = {board[task.id].state for task in _counted(day.tasks, board)}
    state = next((state for state in PRECEDENCE if state in counted), State.DONE)
    head = f"{state.value} {'Open ' if day.is_open else f'Day {day.number}'}  "
    marks = "".join(state.value for state in states)
    most = max(len(d.tasks) for d in load_course().week(day.week).days)
    fields = [f"{marks:{most}}", f"{f'{_done(day.tasks, board)} done':{COUNT}}", f"{_left(day.tasks, board):>{TIME}}"]
    while len(fields) > 1 and width - len(head) - sum(len(field) + 2 for field in fields) < LEAST_TITLE:
        fields.pop()
    tail = "".join(f"  {field}" for field in fields)
    title = width - len(head) - len(tail)
    say(f"{head}{cut(day.title, title):{title}}{tail}".rstrip(), color=COLORS.get(state), cut=True)


def _show_task(task: Task, standing: Standing, width: int) -> None:
    head = f"    {standing.state.value} {task.label}"
    words = standing.words
    time = _left([task], {task.id: standing})
    room = width - len(time) - 2
    line = f"{head}: {words}"
    if time and len(line) <= room:
        line = f"{line:{room}}  {time}"
    elif len(line) > width:
        line = f"{cut(head, width - len(words) - 2)}: {words}"
    say(line, color=COLORS.get(standing.state), cut=True)


def _done(tasks: Sequence[Task], board: Mapping[str, Standing]) -> str:
    counted = _counted(tasks, board)
    return f"{sum(board[task.id].state is State.DONE for task in counted)} of {len(counted)}"


def _counted(tasks: Sequence[Task], board: Mapping[str, Standing]) -> list[Task]:
    """Return the tasks that count towards a day or week: all required ones, and optional ones once done."""
    return [task for task in tasks if not task.optional or board[task.id].state is State.DONE]


def _left(tasks: Sequence[Task], board: Mapping[str, Standing], before: str = "", after: str = "") -> str:
    """Return the time left as `1 h 40 min`, or "" if none."""
    hours, minutes = divmod(minutes_left(tasks, board), 60)
    parts = [f"{hours} h"] * bool(hours) + [f"{minutes} min"] * bool(minutes)
    return f"{before}{' '.join(parts)}{after}" if parts else ""
