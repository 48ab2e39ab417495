"""The book's quizzes: questions whose answers, the right one and the wrong ones, are what programs of the course give.

The questions of a day are in `book/quizzes/weekN/dayM.py`. Each is a function that takes the program of a task and
gives its answer as text. The right answer is what it gives for the solution; a wrong one is what it gives for a known
mistake of the task's `tests/weekN/variants_*.py`.
"""

import hashlib
import math
import runpy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

from ...course.nouns import Day
from ...course.places import name_of, quiz_path
from ...course.registry import Course
from ...programs.packages import SOLUTION_NAME, program
from ...testkit.variants import Variants, load_variants
from .parts import Parts

Answer = Callable[[Any], str]  # from the program of a task to what it gives, in words


@dataclass(frozen=True)
class Question:
    """A question, why its right answer is right, and what each of its known mistakes should have thought of."""

    task: str
    text: str
    why: str
    mistakes: dict[str, str]
    answer: Answer


@dataclass(frozen=True)
class Option:
    """One answer to choose, with its explanation."""

    text: str
    right: bool
    explanation: str


class Quiz:
    """The questions of a day, collected by its decorator."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def question(self, task: str, text: str, *, why: str, mistakes: dict[str, str]) -> Callable[[Answer], Answer]:
        """Decorate the function that gives a program's answer; `mistakes` has a sentence for each known mistake."""

        def collect(answer: Answer) -> Answer:
            self.questions.append(Question(task, text, why, mistakes, answer))
            return answer

        return collect


def numbers(values: mx.array | Iterable[float], digits: int = 2) -> str:
    """Numbers as an answer shows them: rounded, without zeros at the end, with commas between them."""
    flat: Any = values.flatten().tolist() if isinstance(values, mx.array) else values
    return ", ".join("NaN" if math.isnan(value) else f"{round(value, digits) + 0.0:g}" for value in flat)


def quiz_parts(course: Course) -> Parts:
    """The Markdown of each day that has questions."""
    return {(day.name, "quiz"): _page(course, day) for day in course.days() if quiz_path(day).exists()}


def load_quiz(day: Day) -> Quiz:
    """The questions of a day."""
    quiz = runpy.run_path(str(quiz_path(day)))["quiz"]
    assert isinstance(quiz, Quiz)
    return quiz


def options(question: Question, solution: Any, variants: Variants) -> list[Option]:
    """What there is to choose from, in an order that only the texts decide.

    Raises:
        ValueError: two of the answers are the same, or a mistake is not one of the task's.
    """
    known = {variant.name: variant for variant in variants.wrong_programs}
    with mx.stream(mx.cpu):
        found = [Option(question.answer(solution), True, question.why)]
        for name, sentence in question.mistakes.items():
            if name not in known:
                raise ValueError(f"task {question.task} has no known mistake {name!r}")
            text = question.answer(known[name].program)
            if same := [option for option in found if option.text == text]:
                whose = "right" if same[0].right else "of another mistake"
                raise ValueError(f"{question.task}, {question.text[:40]!r}: the answer of {name!r}, {text}, is {whose}")
            found.append(Option(text, False, f"This comes out when {known[name].fact}. {sentence}"))
    return sorted(found, key=lambda option: hashlib.sha256((question.text + option.text).encode()).digest())


def _page(course: Course, day: Day) -> str:
    parts = []
    for number, question in enumerate(load_quiz(day).questions, 1):
        task = course.task(question.task)
        solution = program(task.program, SOLUTION_NAME)
        try:
            parts.append(
                _markdown(f"{day.number}.{number}", question, options(question, solution, load_variants(task)))
            )
        except ValueError as error:
            raise ValueError(f"{name_of(quiz_path(day))}: {error}") from error
    return "\n".join(parts)


def _markdown(number: str, question: Question, choice: list[Option]) -> str:
    """The question, a list of its options, and a list of their explanations in the same order: see mc-quiz.js."""
    answer = next(place for place, option in enumerate(choice) if option.right)
    lines = [f'<mc-quiz answer="{answer}">', "", f"**Quiz {number}.** {question.text}", ""]
    lines += [f"1. {option.text}" for option in choice]
    lines += ["", "<details>", "<summary>Answer</summary>", ""]
    lines += [f"1. **{'Right' if option.right else 'No'}.** {option.explanation}" for option in choice]
    lines += ["", "</details>", "</mc-quiz>", ""]
    return "\n".join(lines)
