"""The memory of quizzes: of each day how its last round went, in the file of `progress`. Nothing depends on it."""

import dataclasses
import datetime
from typing import Any

from ..course.nouns import Day
from . import progress


@dataclasses.dataclass(frozen=True)
class Round:
    """A quiz that was gone through to its end."""

    right: int
    questions: int
    number: int  # counted from 1
    date: str  # 2026-11-22, of this machine's calendar

    @property
    def words(self) -> str:
        """How it went: 2 of 3 right."""
        return f"{self.right} of {self.questions} right"


def last_round(day: Day) -> Round | None:
    """The last round of a day's quiz; None if there was none."""
    match _rounds().get(day.name):
        case {"right": int(right), "questions": int(questions), "number": int(number), "date": str(date)}:
            return Round(right, questions, number, date)
    return None


def remember(day: Day, right: int, questions: int) -> bool:
    """Remember a round; whether that worked."""
    before = last_round(day)
    taken = Round(right, questions, before.number + 1 if before else 1, f"{datetime.date.today()}")
    return progress.save({**progress.load(), "quizzes": {**_rounds(), day.name: dataclasses.asdict(taken)}})


def _rounds() -> dict[str, Any]:
    rounds = progress.load().get("quizzes")
    return rounds if isinstance(rounds, dict) else {}
