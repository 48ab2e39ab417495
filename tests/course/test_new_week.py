"""A week is added by content alone: a copy of the course with a second one proves itself, and breaks no test."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiny_llm_course.dev.transcripts import Scenario, checkout_for, environment, run
from tiny_llm_course.paths import COURSE

# The tests that read the course: its registry, chapters, quizzes, measurements, known programs and stubs.
READERS = (
    "test_book.py", "test_book_numbers.py", "test_book_sources.py", "test_engine_map.py", "test_quizzes.py",
    "test_registry.py", "test_stubs_package.py", "test_variants.py",
    "test_bench.py::test_every_day_has_a_measurement_a_record_and_its_section",
    "test_book_sessions.py",
)  # fmt: skip
MISTAKES = """
for name, new, fact in (
    ("squared", "x * x", "x is multiplied by itself"),
    ("nothing", "x - x", "x is taken away from itself"),
    ("thrice", "x + x + x", "x is added twice"),
):
    known.change(name, ("return x + x", f"return {new}"), fact=fact, question="What should 3 become?")
known.together("nothing", "thrice", makes="unchanged")
"""
QUESTION = """

@quiz.question("2.1.1", "And of 0 and 5?", why="So is each of these.", mistakes={"squared": "Is 5 times 5 twice 5?"})
def two_numbers(program: Any) -> str:
    return numbers(program(mx.array([0.0, 5.0])))
"""
MAP = r"{{#include ../generated/2.1.md:map}}\n"
MEASURED = r"{{#include ../generated/2.1.md:measured}}\n"


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
        run("dev new-day 2.1 --title Sums --week-title Kernels --target kernels.sums:twice", folder)
        written(folder / "tests/week2/test_day1.py", (r"def test_task_1_pytorch(.|\n)*?\n\n\n", ""))
        written(folder / "tests/week2/variants_2_1_1.py", (r"\Z", MISTAKES))
        written(folder / "book/quizzes/week2/day1.py", (r"\Z", QUESTION))
        words = "As many words as a section of this kind has, which say nothing. " * 6
        empty_sections = (r"^(## .*\n)\n*(?=## |\Z)", r"\1\nA sum (`test_task_1_mlx`).\n\n")
        written(folder / "book/src/week2/day1.md", (MEASURED, rf"{MEASURED}\n{words}\n"), empty_sections)
        registry = folder / "src/tiny_llm_course/course/tasks/week2.toml"
        written(registry, (r"^(needs = .*)$", r'makes = ["layers/attention/twice before GQA"]\n\1'))
        written(folder / "book/src/week2/day1.md", (r"^(# .*)\n", rf"\1\n\n{MAP}"))
        written(folder / "book/src/week2/overview.md", (r"^(# .*)\n", rf"\1\n\n{MAP.replace('2.1', '2')}"))
        for command in ("dev stubs", "dev bench 2.1", "dev book"):
            assert run(command, folder).returncode == 0
        yield folder


def test_the_day_proves_itself(checkout: Path) -> None:
    done = run("dev check 2.1", checkout)
    assert done.returncode == 0, done.stdout


def test_its_box_stands_in_the_engine_and_leads_to_its_chapter(checkout: Path) -> None:
    generated = checkout / "book/src/generated"
    texts = {
        name: (generated / f"{name}.md").read_text(encoding="utf-8") for name in ("2.1", "2", "course", "1", "1.1")
    }
    box = '<a href="day1.md#task-2-1-1" title="Week 2, day 1: Sums"'
    assert f'{box} aria-current="page">twice</a>' in texts["2.1"]
    assert f"{box}>twice</a>" in texts["2"]
    assert '<a href="week2/day1.html#task-2-1-1">Week 2, day 1: Sums</a>' in texts["course"]
    assert "twice" not in texts["1"] + texts["1.1"]


def test_it_is_graded_and_stands_on_the_board(checkout: Path) -> None:
    assert "○ 2.1.1 Twice: not started" in run("test 2", checkout).stdout
    assert run("test 2 --solution", checkout).returncode == 0
    board = run("status", checkout).stdout
    assert "Week 1: " in board
    assert "Week 2: Kernels\n  0 of 1 task done, 10 min to go\n" in board


def test_the_tests_that_read_the_course_pass(checkout: Path) -> None:
    tests = [f"{COURSE.parents[1]}/tests/course/{name}" for name in READERS]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=checkout, env=environment(checkout), stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
