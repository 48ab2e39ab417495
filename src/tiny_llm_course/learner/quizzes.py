"""The last quiz round of each day, stored in the file of `progress`."""

import dataclasses
import datetime

from ..course.entities import Day
from . import progress


@dataclasses.dataclass(frozen=True)
class Round:
    """A completed quiz."""

    right: int
    questions: int
    number: int  # counted from 1
    date: str  # 2026-11-22, local

    @property
    def words(self) -> str:
        """Return the score: 2 of 3 right."""
        return f"{self.right} of {self.questions} right"


def last_round(day: Day) -> Round | None:
    """Return the last round of a day's quiz; None if there was none."""
    match progress.table("quizzes").get(day.name):
        case {"right": int(right), "questions": int(questions), "number": int(number), "date": str(date)}:
            return Round(right, questions, number, date)
    return None


def remember(day: Day, right: int, questions: int) -> bool:
    """Store a round; return whether that worked."""
    before = last_round(day)
    taken = Round(right, questions, before.number + 1 if before else 1, f"{datetime.date.today()}")
    rounds = progress.table("quizzes") | {day.name: dataclasses.asdict(taken)}
    return progress.save(progress.load() | {"quizzes": rounds})
