"""What a quiz asks, and how the answers to choose from are found: none of them is written by hand.

A question about a program is answered by the solution and by known mistakes of its task, whatever the program is: a
function, a class, a kernel that counts what it reads. One about a measurement is answered by cells of the record beside
it, one about a message by what the known mistakes of its task are said to be.
"""

import hashlib
import json
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import mlx.core as mx

from ...course.nouns import Day
from ...course.places import name_of, record_path
from ...course.registry import load_course
from ...measuring.clock import Cell
from ...programs.packages import SOLUTION_NAME, program
from ...testkit.variants import Variant, Variants, load_variants
from ..transcripts import scenarios

Record = dict[str, dict[str, Cell]]  # a measurement's cells, by the first one of their row and by their column
Answer = Callable[[Any], str]  # from the program of a task to what it gives, in words
Reading = Callable[[Record, str], str]  # from a record, and what is chosen of it, to an answer


@dataclass(frozen=True)
class Option:
    """One answer to choose, with its explanation, and for a wrong one the name of the mistake that gives it."""

    text: str
    right: bool
    explanation: str
    mistake: str = ""


class Question(Protocol):
    """What a quiz asks."""

    @property
    def text(self) -> str:
        """The question, in Markdown."""

    def options(self, day: Day) -> list[Option]:
        """What there is to choose from, in an order that only the texts decide.

        Raises:
            ValueError: two of the answers are the same, or something that the question names is not there.
        """


@dataclass(frozen=True)
class OfProgram:
    """What does the program give? Each known mistake has a sentence on what it should have thought of."""

    task: str
    text: str
    why: str
    mistakes: dict[str, str]
    answer: Answer

    def options(self, day: Day) -> list[Option]:
        """What the solution and the known mistakes give."""
        task = load_course().task(self.task)
        variants = load_variants(task)  # first: from then on kernels are built when they are needed
        return self.of(program(task.program, SOLUTION_NAME), variants)

    def of(self, solution: Any, variants: Variants) -> list[Option]:
        """The same, for these programs."""
        wrong = {}
        for name, sentence in self.mistakes.items():
            known = _known(variants, self.task, name)
            wrong[name] = self._answer(known.program), f"This comes out when {known.fact}. {sentence}"
        return _in_order(self.text, (self._answer(solution), self.why), wrong)

    def _answer(self, program: Any) -> str:
        with mx.stream(mx.cpu):
            return self.answer(program)


@dataclass(frozen=True)
class OfMeasurement:
    """What did our own run measure? `right` and the mistakes are what `reading` may choose of the record."""

    text: str
    right: str
    why: str
    mistakes: dict[str, str]
    reading: Reading

    def options(self, day: Day) -> list[Option]:
        """What the record has at each of the places."""
        file = record_path(day)
        if not file.is_file():
            raise ValueError(f"there is no {name_of(file)} to read the answers from (pdm run dev bench {day.name})")
        found = json.loads(file.read_text(encoding="utf-8"))
        return self.of({str(row[0]): dict(zip(found["columns"], row, strict=True)) for row in found["rows"]})

    def of(self, record: Record) -> list[Option]:
        """The same, for this record."""
        try:
            right = self.reading(record, self.right), self.why
            wrong = {name: (self.reading(record, name), text) for name, text in self.mistakes.items()}
        except KeyError as missing:
            raise ValueError(f"{self.text[:40]!r}: the record has no {missing}") from missing
        return _in_order(self.text, right, wrong)


@dataclass(frozen=True)
class OfMessage:
    """Which mistake is behind a message? It is shown up to where it is named."""

    task: str
    transcript: str
    asked: str
    why: str
    mistakes: dict[str, str]

    @property
    def text(self) -> str:
        """The question, and what the transcript has of the task before it names the mistake."""
        shown, _ = self._message()
        return f"{self.asked}\n\n```text\n{textwrap.dedent(shown)}\n```"

    def options(self, day: Day) -> list[Option]:
        """The facts of known mistakes, of which the transcript names one."""
        variants, (_, named) = load_variants(load_course().task(self.task)), self._message()
        right = [known.fact for known in variants.wrong_programs if f" {known.fact}." in named]
        if len(right) != 1:
            raise ValueError(f"the transcript {self.transcript} does not name one mistake of task {self.task}")
        wrong = {
            name: (_sentence(_known(variants, self.task, name).fact), text) for name, text in self.mistakes.items()
        }
        return _in_order(self.asked, (_sentence(right[0]), self.why), wrong)

    def _message(self) -> tuple[str, str]:
        """What is said of the task up to the failing case, and the rest."""
        file = next((s.file for s in scenarios() if s.name == self.transcript), None)
        if file is None or not file.is_file():
            raise ValueError(f"there is no transcript {self.transcript} (pdm run dev transcripts {self.transcript})")
        lines = file.read_text(encoding="utf-8").splitlines()
        start = next((n for n, line in enumerate(lines) if line.startswith(f"✗ {self.task} ")), None)
        if start is None:
            raise ValueError(f"task {self.task} does not fail in the transcript {self.transcript}")
        case = next(n for n, line in enumerate(lines) if n > start and line.lstrip().startswith("case "))
        return "\n".join(lines[start : case + 1]), "\n".join(lines[case + 1 :])


def _known(variants: Variants, task: str, name: str) -> Variant:
    known = next((variant for variant in variants.wrong_programs if variant.name == name), None)
    if known is None:
        raise ValueError(f"task {task} has no known mistake {name!r}")
    return known


def _in_order(question: str, right: tuple[str, str], wrong: dict[str, tuple[str, str]]) -> list[Option]:
    """The options, each an answer and its explanation; the wrong ones by the names of their mistakes."""
    found = [Option(right[0], True, right[1])]
    for name, (text, explanation) in wrong.items():
        if same := [option for option in found if option.text == text]:
            whose = "right" if same[0].right else "of another mistake"
            raise ValueError(f"{question[:40]!r}: the answer of {name!r}, {text}, is {whose}")
        found.append(Option(text, False, explanation, name))
    return sorted(found, key=lambda option: hashlib.sha256((question + option.text).encode()).digest())


def _sentence(fact: str) -> str:
    return f"{fact[0].upper()}{fact[1:]}."
