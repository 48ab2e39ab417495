"""The book's quizzes: the questions of a day, in `book/quizzes/weekN/dayM.py`, and their Markdown.

Answers are computed, never written by hand: the solution and known mistakes answer a question about a program; cells of
a record one about a measurement; the facts of known mistakes one about a message.
"""

import hashlib
import json
import math
import runpy
import textwrap
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import mlx.core as mx

from ...course.entities import Day
from ...course.file_paths import name_of, quiz_path, record_path
from ...course.registry import load_course
from ...measuring.clock import Cell
from ...paths import make_importable
from ...programs.packages import SOLUTION_NAME, program
from ...testkit.variants import Variant, Variants, load_variants
from ..transcripts import scenarios
from .parts import Parts, is_there

Record = dict[str, dict[str, Cell]]  # a measurement's cells, by their row's first cell and by column
Answer = Callable[[Any], str]  # from a task's program to its result as text
Reading = Callable[[Record, str], str]  # from a record and a selection from it to an answer


class Option(NamedTuple):
    """An answer option and its explanation; a wrong one has the name of the mistake that returns it."""

    text: str
    right: bool
    explanation: str
    mistake: str = ""


class OfProgram(NamedTuple):
    """What does the program return? Each known mistake has a sentence that says what was overlooked."""

    task: str
    text: str
    why: str
    mistakes: dict[str, str]
    answer: Answer

    def options(self, day: Day) -> list[Option]:
        """Return the results of the solution and of the known mistakes."""
        task = load_course().task(self.task)
        variants = load_variants(task)  # first, because it enables building kernels on demand
        return self.of(program(task.program, SOLUTION_NAME), variants)

    def of(self, solution: Any, variants: Variants) -> list[Option]:
        """Return the options for these programs."""
        wrong = {}
        for name, sentence in self.mistakes.items():
            known = _known(variants, self.task, name)
            wrong[name] = self._answer(known.program), f"You get this when {known.fact}. {sentence}"
        return _in_order(self.text, (self._answer(solution), self.why), wrong)

    def _answer(self, program: Any) -> str:
        with mx.stream(mx.cpu):
            return self.answer(program)


class OfMeasurement(NamedTuple):
    """What did our run measure? `right` and the mistakes are arguments of `reading`."""

    text: str
    right: str
    why: str
    mistakes: dict[str, str]
    reading: Reading

    def options(self, day: Day) -> list[Option]:
        """Return the record's values."""
        file = record_path(day)
        if not file.is_file():
            raise ValueError(f"there is no {name_of(file)} to read the answers from (pdm run dev bench {day.name})")
        found = json.loads(file.read_text(encoding="utf-8"))
        return self.of({str(row[0]): dict(zip(found["columns"], row, strict=True)) for row in found["rows"]})

    def of(self, record: Record) -> list[Option]:
        """Return the options for this record."""
        try:
            right = self.reading(record, self.right), self.why
            wrong = {name: (self.reading(record, name), text) for name, text in self.mistakes.items()}
        except KeyError as missing:
            raise ValueError(f"{self.text[:40]!r}: the record has no {missing}") from missing
        return _in_order(self.text, right, wrong)


class OfMessage(NamedTuple):
    """Which mistake causes a message? The message is shown up to the point where it names the mistake."""

    task: str
    transcript: str
    asked: str
    why: str
    mistakes: dict[str, str]

    @property
    def text(self) -> str:
        """The question, and the task's transcript up to the point where it names the mistake."""
        shown, _ = self._message()
        return f"{self.asked}\n\n```text\n{textwrap.dedent(shown)}\n```"

    def options(self, day: Day) -> list[Option]:
        """Return the facts of known mistakes, one of which the transcript names."""
        variants, (_, named) = load_variants(load_course().task(self.task)), self._message()
        right = [known.fact for known in variants.wrong_programs if f" {known.fact}." in named]
        if len(right) != 1:
            raise ValueError(f"the transcript {self.transcript} does not name one mistake of task {self.task}")
        facts = {name: _known(variants, self.task, name).fact for name in self.mistakes}
        wrong = {name: (_sentence(fact), self.mistakes[name]) for name, fact in facts.items()}
        return _in_order(self.asked, (_sentence(right[0]), self.why), wrong)

    def _message(self) -> tuple[str, str]:
        """Return the message about the task up to the failing case, and the rest."""
        file = next((s.file for s in scenarios() if s.name == self.transcript), None)
        if file is None or not file.is_file():
            raise ValueError(f"there is no transcript {self.transcript} (pdm run dev transcripts {self.transcript})")
        lines = file.read_text(encoding="utf-8").splitlines()
        start = next((n for n, line in enumerate(lines) if line.startswith(f"✗ {self.task} ")), None)
        if start is None:
            raise ValueError(f"task {self.task} does not fail in the transcript {self.transcript}")
        case = next(n for n, line in enumerate(lines) if n > start and line.lstrip().startswith("case "))
        return "\n".join(lines[start : case + 1]), "\n".join(lines[case + 1 :])


Question = OfProgram | OfMeasurement | OfMessage
Function = TypeVar("Function", bound=Callable[..., str])


def _known(variants: Variants, task: str, name: str) -> Variant:
    known = next((variant for variant in variants.wrong_programs if variant.name == name), None)
    if known is None:
        raise ValueError(f"task {task} has no known mistake {name!r}")
    return known


def _in_order(question: str, right: tuple[str, str], wrong: dict[str, tuple[str, str]]) -> list[Option]:
    """Return the options, given as answer and explanation; the wrong ones by the names of their mistakes."""
    found = [Option(right[0], True, right[1])]
    for name, (text, explanation) in wrong.items():
        if same := [option for option in found if option.text == text]:
            whose = "right" if same[0].right else "of another mistake"
            raise ValueError(f"{question[:40]!r}: the answer of {name!r}, {text}, is {whose}")
        found.append(Option(text, False, explanation, name))
    return sorted(found, key=lambda option: hashlib.sha256((question + option.text).encode()).digest())


def _sentence(fact: str) -> str:
    return f"{fact[0].upper()}{fact[1:]}."


class Quiz:
    """The questions of a day, collected by its methods."""

    def __init__(self) -> None:
        self.questions: list[Question] = []

    def question(self, task: str, text: str, *, why: str, mistakes: dict[str, str]) -> Callable[[Answer], Answer]:
        """Decorate a function that turns a program into an answer; `mistakes` has a sentence for each known mistake."""
        return self._collecting(lambda answer: OfProgram(task, text, why, mistakes, answer))

    def measured(self, text: str, *, right: str, why: str, mistakes: dict[str, str]) -> Callable[[Reading], Reading]:
        """Decorate a function that reads an answer from the day's record, given `right` or a key of `mistakes`."""
        return self._collecting(lambda reading: OfMeasurement(text, right, why, mistakes, reading))

    def message(self, task: str, transcript: str, text: str, *, why: str, mistakes: dict[str, str]) -> None:
        """Ask which mistake of the task causes its message in a transcript; `mistakes` are others of the task."""
        self.questions.append(OfMessage(task, transcript, text, why, mistakes))

    def _collecting(self, make: Callable[[Function], Question]) -> Callable[[Function], Function]:
        def collect(function: Function) -> Function:
            self.questions.append(make(function))
            return function

        return collect

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
