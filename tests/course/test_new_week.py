"""A week is added by content alone: a copy of the course with one more proves itself, and breaks no test."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.transcripts import Scenario, checkout_for, environment, run
from tiny_llm_course.paths import COURSE

pytestmark = pytest.mark.maintainers
WEEK = load_course().weeks[-1].number + 1
DAY, TASK, FOLDER = f"{WEEK}.1", f"{WEEK}.1.1", f"week{WEEK}"

# The tests that read the course: its registry, chapters, quizzes, measurements, known programs and stubs.
READERS = (
    "test_book.py", "test_book_numbers.py", "test_book_sources.py", "test_engine_map.py", "test_quizzes.py",
    "test_registry.py", "test_stubs_package.py", "test_variants.py",
    "test_bench.py::test_every_day_has_a_measurement_a_record_and_its_section",
    "test_book_sessions.py",
)  # fmt: skip
# Whether the pages of all other days are current: it would take minutes to make them again.
OTHER_PAGES = ("--deselect", f"{COURSE.parents[1]}/tests/course/test_book.py::test_generated_files_are_current")
MISTAKES = """
for name, new, fact in (
    ("squared", "x * x", "x is multiplied by itself"),
    ("nothing", "x - x", "x is taken away from itself"),
    ("thrice", "x + x + x", "x is added twice"),
):
    known.change(name, ("return x + x", f"return {new}"), fact=fact, question="What should 3 become?")
known.together("nothing", "thrice", makes="unchanged")
"""
QUESTION = f"""

@quiz.question("{TASK}", "And of 0 and 5?", why="So is each of these.", mistakes={{"squared": "Is 5 times 5 twice 5?"}})
def two_numbers(program: Any) -> str:
    return numbers(program(mx.array([0.0, 5.0])))
"""
MAP = rf"{{{{#include ../generated/{DAY}.md:map}}}}\n"
MEASURED = rf"{{{{#include ../generated/{DAY}.md:measured}}}}\n"


def written(file: Path, *changes: tuple[str, str]) -> None:
    """Change the text of a file, by patterns."""
    text = file.read_text(encoding="utf-8")
    for pattern, new in changes:
        text, times = re.subn(pattern, new, text, flags=re.MULTILINE)
        assert times
    file.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def checkout() -> Iterator[Path]:
    """The scaffold of a day in a copy of the course, and what it lacks."""
    with checkout_for(Scenario("two weeks", ())) as folder:
        run(f"dev new-day {DAY} --title Sums --week-title Another --target another.sums:twice", folder)
        written(folder / f"tests/{FOLDER}/test_day1.py", (r"def test_task_1_pytorch(.|\n)*?\n\n\n", ""))
        written(folder / f"tests/{FOLDER}/variants_{TASK.replace('.', '_')}.py", (r"\Z", MISTAKES))
        written(folder / f"book/quizzes/{FOLDER}/day1.py", (r"\Z", QUESTION))
        words = "As many words as a section of this kind has, which say nothing. " * 6
        empty_sections = (r"^(## .*\n)\n*(?=## |\Z)", r"\1\nA sum (`test_task_1_mlx`).\n\n")
        written(folder / f"book/src/{FOLDER}/day1.md", (MEASURED, rf"{MEASURED}\n{words}\n"), empty_sections)
        registry = folder / f"src/tiny_llm_course/course/tasks/{FOLDER}.toml"
        written(registry, (r"^(needs = .*)$", r'makes = ["layers/attention/twice before GQA"]\n\1'))
        written(folder / f"book/src/{FOLDER}/day1.md", (r"^(# .*)\n", rf"\1\n\n{MAP}"))
        written(folder / f"book/src/{FOLDER}/overview.md", (r"^(# .*)\n", rf"\1\n\n{MAP.replace(DAY, str(WEEK))}"))
        done = run(f"dev refresh {DAY}", folder)
        assert done.returncode == 0, done.stdout
        named = [line for line in done.stdout.splitlines() if "pdm run dev" in line]
        commands = ("stubs", f"bench {DAY}", f"book {DAY}", f"check {DAY}")
        assert [line.partition("pdm run dev ")[2] for line in named if "Next" not in line] == [*commands]
        yield folder


def test_the_day_proves_itself(checkout: Path) -> None:
    done = run(f"dev check {DAY}", checkout)
    assert done.returncode == 0, done.stdout


def test_its_box_stands_in_the_engine_and_leads_to_its_chapter(checkout: Path) -> None:
    assert run("dev book 1.1", checkout).returncode == 0
    generated = checkout / "book/src/generated"
    texts = {
        name: (generated / f"{name}.md").read_text(encoding="utf-8") for name in (DAY, str(WEEK), "course", "1", "1.1")
    }
    anchor = f"task-{TASK.replace('.', '-')}"
    box = f'<a href="day1.md#{anchor}" title="Week {WEEK}, day 1: Sums"'
    assert f'{box} aria-current="page">twice</a>' in texts[DAY]
    assert f"{box}>twice</a>" in texts[str(WEEK)]
    assert f'<a href="{FOLDER}/day1.html#{anchor}">Week {WEEK}, day 1: Sums</a>' in texts["course"]
    assert "twice" not in texts["1"] + texts["1.1"]


def test_it_is_graded_and_stands_on_the_board(checkout: Path) -> None:
    assert f"○ {TASK} Twice: not started" in run(f"test {WEEK}", checkout).stdout
    assert run(f"test {WEEK} --solution", checkout).returncode == 0
    board = run("status", checkout).stdout
    assert "Week 1: " in board
    assert f"Week {WEEK}: Another\n  0 of 1 task done, 10 min to go\n" in board


def test_the_tests_that_read_the_course_pass(checkout: Path) -> None:
    tests = [f"{COURSE.parents[1]}/tests/course/{name}" for name in READERS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, *OTHER_PAGES]
    settings = {**environment(checkout), "TINY_LLM_NEW_WEEK": str(WEEK)}
    done = subprocess.run(command, cwd=checkout, env=settings, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
