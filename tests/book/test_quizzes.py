"""Quizzes in a browser: by keyboard, right and wrong, without JavaScript and on paper."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.quizzes import load_quiz

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

DAYS = [day for day in load_course().days() if not day.is_open]
DAY_1 = "week1/day1.html"


def address(chapter: str) -> str:
    return Path(chapter).with_suffix(".html").as_posix()


def first_quiz(page: "Page") -> "Locator":
    page.goto(DAY_1)
    return page.locator("mc-quiz").first


def state(quiz: "Locator") -> dict[str, object]:
    return dict(quiz.evaluate("quiz => quiz.state"))


# Checks every answer of every quiz on a page: a list for each quiz, with the state after choosing and after checking.
CHECK_ALL = """() => [...document.querySelectorAll("mc-quiz")].map((quiz) =>
  [...quiz.querySelectorAll("label")].map((label) => {
    label.click();
    const chosen = quiz.state;
    quiz.querySelector("button").click();
    return [chosen, quiz.state];
  }))"""


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.name)
def test_every_answer_is_explained_and_one_is_right(page: "Page", day) -> None:
    page.goto(address(day.chapter))
    quizzes = page.evaluate(CHECK_ALL)
    assert len(quizzes) == len(load_quiz(day).questions)
    for quiz in quizzes:
        assert len(quiz) >= 3
        for number, (chosen, checked) in enumerate(quiz):
            assert (chosen["chosen"], chosen["verdict"], chosen["said"]) == (number, None, "")
            right = number == checked["answer"]
            assert checked["verdict"] == ("right" if right else "wrong")
            assert checked["said"].startswith("Right. " if right else "No. ")
        assert len({checked["said"] for _, checked in quiz}) == len(quiz)


def test_keyboard(page: "Page") -> None:
    quiz = first_quiz(page)
    quiz.locator("input").first.focus()
    page.keyboard.press("Space")
    assert state(quiz)["chosen"] == 0
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert state(quiz)["chosen"] == 2
    right = int(quiz.get_attribute("answer") or "")
    for _ in range((right - 2) % 4):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert state(quiz)["verdict"] == "right"
    page.keyboard.press("ArrowLeft")
    assert state(quiz) == {"chosen": (right - 1) % 4, "verdict": None, "answer": right, "said": ""}
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("s")
    page.keyboard.press("Space")
    assert state(quiz)["verdict"] == "wrong"
    assert page.evaluate("document.activeElement.textContent") == "Check"
    assert page.url.endswith(DAY_1)


def test_no_answer_chosen(page: "Page") -> None:
    quiz = first_quiz(page)
    quiz.get_by_role("button", name="Check").click()
    assert state(quiz)["said"] == "Choose an answer first."


def test_the_right_answer_opens_the_way_to_what_is_wrong_with_the_others(page: "Page") -> None:
    quiz = first_quiz(page)
    notes = quiz.locator(".quiz-form details")
    right = int(quiz.get_attribute("answer") or "")
    for number, label in enumerate(quiz.locator("label").all()):
        label.click()
        assert not notes.is_visible()
        quiz.get_by_role("button", name="Check").click()
        assert notes.is_visible() == (number == right)
        if number == right:
            notes.locator("summary").click()
            letters = notes.locator("li").evaluate_all("items => items.map((item) => item.value - 1)")
            assert letters == [place for place in range(4) if place != right]
            assert all(text.startswith("You get this when") for text in notes.locator("li").all_inner_texts())


def test_the_question_names_the_choice(page: "Page") -> None:
    group = first_quiz(page).get_by_role("group", name=re.compile(r"^Quiz 1\.1\.1\. "))
    assert group.get_by_role("radio").count() == 4


def test_without_javascript(browser: "Browser", book_url: str) -> None:
    context = browser.new_context(base_url=book_url, java_script_enabled=False)
    page = context.new_page()
    quiz = first_quiz(page)
    assert quiz.locator("input, button").count() == 0
    assert quiz.get_by_text("Quiz 1.1.1.").is_visible()
    assert quiz.locator("> ol > li").count() == 4
    answers = quiz.locator("details li")
    assert not answers.first.is_visible()
    quiz.get_by_text("Answer").click()
    right = int(quiz.get_attribute("answer") or "")
    assert [text.startswith("Right.") for text in answers.all_inner_texts()] == [place == right for place in range(4)]
    context.close()


def test_on_paper(page: "Page") -> None:
    quiz = first_quiz(page)
    page.emulate_media(media="print")
    assert not quiz.locator("form").is_visible()
    assert quiz.locator(".quiz-still > ol").is_visible()
    assert quiz.get_by_text("Answer", exact=True).is_visible()


@pytest.mark.parametrize("width", [375])
def test_on_a_phone(page: "Page", width: int) -> None:
    quiz = first_quiz(page)
    box = quiz.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert quiz.evaluate("quiz => quiz.scrollWidth <= quiz.clientWidth")
