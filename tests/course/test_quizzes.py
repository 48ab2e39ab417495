"""The quizzes of the book: what they are made of, and what they refuse."""

import os
import re
import subprocess
import sys

import pytest

from tiny_llm_course.course.entities import Day
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.parts import present
from tiny_llm_course.dev.book.quizzes import (
    OfMeasurement,
    OfMessage,
    OfProgram,
    Option,
    Record,
    load_quiz,
    numbers,
)
from tiny_llm_course.dev.completeness import QUESTIONS
from tiny_llm_course.paths import COURSE
from tiny_llm_course.testkit.variants import Variants

DAYS = [day for day in load_course().days() if not day.is_open]


def variants() -> Variants:
    known = Variants("1.1.1")
    known.wrong("twice", fact="it is doubled", question="")(lambda x: 2 * x)
    known.wrong("minus", fact="it is negated", question="")(lambda x: -x)
    return known


def told(options: list[Option]) -> list[tuple[str, bool]]:
    return [(option.text, option.right) for option in options]


def choice(value: int, *mistakes: str, known: Variants | None = None) -> list[tuple[str, bool]]:
    asked = dict.fromkeys(mistakes, "Think.")
    question = OfProgram("1.1.1", "What comes out?", "Because.", asked, lambda program: str(program(value)))
    return told(question.of(lambda x: x, known or variants()))


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.name)
def test_every_day_has_a_quiz(day: Day) -> None:
    assert len(load_quiz(day).questions) in QUESTIONS


def test_quizzes_are_found_wherever_they_are_asked_for(tmp_path) -> None:
    """Python does not look for modules in the checkout itself, when `pdm run quiz` starts it."""
    code = """
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.quizzes import load_quiz
for day in load_course().days():
    day.is_open or load_quiz(day)
"""
    environment = os.environ | {"PYTHONPATH": str(COURSE.parent), "PYTHONSAFEPATH": "1"}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True)


def test_the_right_answer_is_not_always_in_one_place() -> None:
    places = re.findall(r'answer="(\d)"', "".join(present(day.name, "quiz") for day in DAYS))
    assert len(set(places)) >= 3


def test_answers_are_what_the_programs_give() -> None:
    assert sorted(choice(3, "twice", "minus")) == [("-3", False), ("3", True), ("6", False)]


def test_the_order_does_not_depend_on_who_is_right() -> None:
    assert choice(3, "twice", "minus") == choice(3, "minus", "twice")


def test_a_mistake_that_gives_the_right_answer_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'twice', 0, is right"):
        choice(0, "twice")


def test_two_mistakes_with_one_answer_are_refused() -> None:
    known = variants()
    known.wrong("twice-again", fact="it is doubled", question="")(lambda x: 2 * x)
    with pytest.raises(ValueError, match=r"'twice-again', 2, is of another mistake"):
        choice(1, "twice", "twice-again", known=known)


def test_an_unknown_mistake_is_refused() -> None:
    with pytest.raises(ValueError, match=r"task 1\.1\.1 has no known mistake 'thrice'"):
        choice(1, "thrice")


RECORD: Record = {"10": {"tokens": 10, "ms": 2.5}, "20": {"tokens": 20, "ms": 5.5}}


def measured(right: str, *mistakes: str) -> OfMeasurement:
    return OfMeasurement("How long?", right, "", dict.fromkeys(mistakes, ""), lambda r, row: f"{r[row]['ms']} ms")


def test_answers_are_what_was_measured() -> None:
    assert sorted(told(measured("20", "10").of(RECORD))) == [("2.5 ms", False), ("5.5 ms", True)]


def test_what_was_not_measured_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'How long\?': the record has no '30'"):
        measured("20", "30").of(RECORD)
    with pytest.raises(ValueError, match=r"the answer of '20', 5.5 ms, is right"):
        measured("20", "20").of(RECORD)


def test_a_message_is_shown_up_to_its_name() -> None:
    """And the right answer is what the transcript names."""
    question = OfMessage("1.3.2", "day3-heads-dealt-out", "What is it?", "", {"no-scale": ""})
    assert question.text.endswith("mask causal, seed 0\n```")
    assert "Your output equals" not in question.text
    (right,) = (option.text for option in question.options(DAYS[2]) if option.right)
    assert "a round-robin assignment" in right


@pytest.mark.parametrize(
    ("task", "transcript", "words"),
    [
        ("1.3.2", "no-such-session", "there is no transcript no-such-session"),
        ("1.3.1", "day3-heads-dealt-out", "task 1.3.1 does not fail in the transcript"),
    ],
)
def test_a_message_that_is_not_there_is_refused(task: str, transcript: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        OfMessage(task, transcript, "What is it?", "", {}).options(DAYS[2])


def test_every_kind_of_question_is_asked() -> None:
    kinds = {type(question) for day in DAYS for question in load_quiz(day).questions}
    assert kinds == {OfProgram, OfMeasurement, OfMessage}


def test_numbers_as_they_are_read() -> None:
    assert numbers([0.5, 2.0, -0.001, float("nan"), 1.234]) == "0.5, 2, 0, NaN, 1.23"
