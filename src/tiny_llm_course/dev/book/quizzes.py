"""The book's quizzes: the questions of a day, in `book/quizzes/weekN/dayM.py`, and their Markdown."""

import math
import runpy
from collections.abc import Callable, Iterable
from typing import Any

import mlx.core as mx

from ...course.entities import Day
from ...course.file_paths import name_of, quiz_path
from ...paths import make_importable
from .parts import Parts, is_there
from .questions import Answer, OfMeasurement, OfMessage, OfProgram, Option, Question, Reading


class Quiz:
    """The questions of a day, collected by its methods."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def question(self, task: str, text: str, *, why: str, mistakes: dict[str, str]) -> Callable[[Answer], Answer]:
        """Decorate a function that turns a program into an answer; `mistakes` has a sentence for each known mistake."""

        def collect(answer: Answer) -> Answer:
            self.questions.append(OfProgram(task, text, why, mistakes, answer))
            return answer

        return collect

    def measured(self, text: str, *, right: str, why: str, mistakes: dict[str, str]) -> Callable[[Reading], Reading]:
        """Decorate a function that reads an answer from the day's record, given `right` or a key of `mistakes`."""

        def collect(reading: Reading) -> Reading:
            self.questions.append(OfMeasurement(text, right, why, mistakes, reading))
            return reading

        return collect

    def message(self, task: str, transcript: str, text: str, *, why: str, mistakes: dict[str, str]) -> None:
        """Ask which mistake of the task causes its message in a transcript; `mistakes` are others of the task."""
        self.questions.append(OfMessage(task, transcript, text, why, mistakes))

    @property
    def transcripts(self) -> set[str]:
        """The names of the scenarios whose messages are asked about."""
        return {question.transcript for question in self.questions if isinstance(question, OfMessage)}


def numbers(values: mx.array | Iterable[float], digits: int = 2) -> str:
    """Format numbers as answers show them: rounded, without trailing zeros, separated by commas."""
    flat: Any = values.flatten().tolist() if isinstance(values, mx.array) else values
    return ", ".join("NaN" if math.isnan(value) else f"{round(value, digits) + 0.0:g}" for value in flat)


def quiz_parts(day: Day) -> Parts:
    """Return the `quiz` of a day that has questions."""
    if not is_there(quiz_path(day)):
        return {}
    questions = enumerate(load_quiz(day).questions, 1)
    try:
        return {"quiz": "\n".join(_markdown(f"{day.name}.{i}", each.text, each.options(day)) for i, each in questions)}
    except ValueError as error:
        raise ValueError(f"{name_of(quiz_path(day))}: {error}") from error


def load_quiz(day: Day) -> Quiz:
    """Load the questions of a day."""
    make_importable()
    quiz = runpy.run_path(str(quiz_path(day)))["quiz"]
    assert isinstance(quiz, Quiz)
    return quiz


def _markdown(number: str, text: str, choice: list[Option]) -> str:
    """Return the question, its options, and their explanations in the same order: see mc-quiz.js."""
    answer = next(place for place, option in enumerate(choice) if option.right)
    lines = [f'<mc-quiz answer="{answer}">', "", f"**Quiz {number}.** {text}", ""]
    lines += [f"1. {option.text}" for option in choice]
    lines += ["", "<details>", "<summary>Answer</summary>", ""]
    lines += [f"1. **{'Right' if option.right else 'No'}.** {option.explanation}" for option in choice]
    lines += ["", "</details>", "</mc-quiz>", ""]
    return "\n".join(lines)
