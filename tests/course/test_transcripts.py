"""What a learner sees is what is recorded, and keeps to the rules for a screen.

The scenarios of the fixture course are played here; those of the course itself, which the book shows, by `dev check`.
"""

import re

import pytest
from tests.course.checkouts import FIXTURE

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book.quizzes import load_quiz
from tiny_llm_course.dev.transcripts import Scenario, differences, scenarios
from tiny_llm_course.paths import BOOK

pytestmark = pytest.mark.maintainers
PLAYED = scenarios(FIXTURE)
ALL = [*PLAYED, *scenarios()]


def name(scenario: Scenario) -> str:
    return scenario.name


@pytest.mark.parametrize("scenario", PLAYED, ids=name)
def test_a_scenario_prints_what_is_recorded(scenario: Scenario):
    assert differences(scenario) == []


def test_every_transcript_has_its_scenario():
    files = {file for course in (FIXTURE / "book", BOOK) for file in (course / "transcripts").glob("*.txt")}
    assert files == {scenario.file for scenario in ALL}


def test_the_book_shows_every_scenario_of_the_course():
    """A page does, or a quiz."""
    pages = "".join(page.read_text(encoding="utf-8") for page in (BOOK / "src").rglob("*.md"))
    asked = set().union(*(load_quiz(day).transcripts for day in load_course().days() if not day.is_open))
    assert not [s.name for s in scenarios() if f"/transcripts/{s.name}.txt}}}}" not in pages and s.name not in asked]


@pytest.mark.parametrize("scenario", ALL, ids=name)
def test_a_transcript_fits_the_screen(scenario: Scenario):
    """At most 60 lines a run, 25 lines a task, no traceback; wrong use is one line and what to type, exit code 2."""
    for run in scenario.file.read_text(encoding="utf-8").split("\n\n$ "):
        lines = run.splitlines()[1:]
        assert len(lines) <= 60
        assert "Traceback" not in run
        tasks = re.split(r"^[✓✗○⇢~] ", run, flags=re.MULTILINE)[1:]
        assert all(len(task.splitlines()) <= 25 for task in tasks)
        if lines[-1] == "[exit code 2]":
            assert not lines[0].startswith(" ")
            assert all(line.startswith("    ") for line in lines[1:-1])


def test_no_scenario_but_a_solved_one_passes():
    """Nothing that is wrong ends with exit code 0."""
    passing = {
        s.name for s in ALL if s.typed[0].startswith("test") and "[exit code 0]" in s.file.read_text(encoding="utf-8")
    }
    assert {name for name in passing if not name.endswith("solved")} == {"solution", "a-day"}
