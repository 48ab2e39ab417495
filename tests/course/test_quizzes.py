"""The quizzes of the book: what they are made of, and what they refuse."""

import re

import pytest

from tiny_llm_course.course.nouns import Day
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.parts import present
from tiny_llm_course.dev.book.quizzes import Quiz, load_quiz, numbers, options, quiz_parts
from tiny_llm_course.testkit.variants import Variants

DAYS = load_course().days()


def variants() -> Variants:
    known = Variants("1.1.1")
    known.wrong("twice", fact="it is doubled", question="")(lambda x: 2 * x)
    known.wrong("minus", fact="it is negated", question="")(lambda x: -x)
    return known


def choice(value: int, *mistakes: str) -> list[tuple[str, bool]]:
    quiz = Quiz()

    @quiz.question("1.1.1", "What comes out?", why="Because.", mistakes=dict.fromkeys(mistakes, "Think."))
    def answer(program) -> str:
        return str(program(value))

    return [(option.text, option.right) for option in options(quiz.questions[0], lambda x: x, variants())]


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.name)
def test_every_day_has_a_quiz(day: Day) -> None:
    assert 2 <= len(load_quiz(day).questions) <= 3


def test_generated_quizzes_are_current() -> None:
    parts = quiz_parts(load_course())
    assert len(parts) == len(DAYS)
    assert not [place for place, text in parts.items() if present(*place) != text]


def test_the_right_answer_is_not_always_in_one_place() -> None:
    places = re.findall(r'answer="(\d)"', "".join(quiz_parts(load_course()).values()))
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
    quiz = Quiz()
    quiz.question("1.1.1", "?", why="", mistakes={"twice": "", "twice-again": ""})(lambda program: str(program(1)))
    with pytest.raises(ValueError, match=r"'twice-again', 2, is of another mistake"):
        options(quiz.questions[0], lambda x: x, known)


def test_an_unknown_mistake_is_refused() -> None:
    with pytest.raises(ValueError, match=r"task 1\.1\.1 has no known mistake 'thrice'"):
        choice(1, "thrice")


def test_numbers_as_they_are_read() -> None:
    assert numbers([0.5, 2.0, -0.001, float("nan"), 1.234]) == "0.5, 2, 0, NaN, 1.23"
