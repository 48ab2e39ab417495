"""The sessions of the book: they print what they show, and a learner who has come so far can type them.

What a chapter shows needs no code that is written further down, or says so: a Python session by a link to the task, a
recorded output by `--solution`.
"""

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.course import pycon_sessions
from tests.course.fences import fences

from tiny_llm_course.course.entities import Day, Task
from tiny_llm_course.course.file_paths import chapter_path
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev.book import parts
from tiny_llm_course.dev.transcripts import Scenario, scenarios
from tiny_llm_course.paths import BOOK, COURSE, SOLUTION

pytestmark = pytest.mark.maintainers
COURSE_TASKS = load_course().tasks()
DAYS = load_course().days()
SOURCE = BOOK / "src"
WITH_SESSIONS = [
    page
    for page in sorted(SOURCE.rglob("*.md"))
    if page.parent != parts.FOLDER and any(fence.language == "pycon" for fence in fences(page))
]
every_day = pytest.mark.parametrize("day", DAYS, ids=lambda day: day.name)


class Played(NamedTuple):
    """How the sessions of a page went: what was printed if they failed, and the functions that each line called."""

    complaints: str
    calls: list[tuple[int, str, str]]


@functools.cache
def played(page: Path) -> Played:
    """A page is one session, with the solution as `tiny_llm`. A line of it keeps its number."""
    lines = [""] * len(page.read_text(encoding="utf-8").splitlines())
    for fence in fences(page):
        if fence.language == "pycon":
            lines[fence.line - 1 : fence.line - 1 + len(fence.lines)] = fence.lines
            assert any(line.startswith(">>> ") for line in fence.lines), f"line {fence.line}: nothing is typed"
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder, page.with_suffix(".txt").name), Path(folder, "calls.json")
        file.write_text("\n".join(lines), encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": f"{SOLUTION.parent}{os.pathsep}{COURSE.parent}"}
        command = [sys.executable, pycon_sessions.__file__, str(file), str(out)]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        calls = json.loads(out.read_text(encoding="utf-8")) if out.exists() else []
    return Played(done.stdout if done.returncode else "", [(line, file, name) for line, file, name in calls])


@pytest.mark.parametrize("page", WITH_SESSIONS, ids=lambda page: page.relative_to(SOURCE).as_posix())
def test_python_sessions_print_what_they_show(page: Path) -> None:
    assert played(page).complaints == ""


def place_of(task: Task, text: str) -> int:
    """The line of a task's section."""
    return text[: text.index(f"{{#task-{task.id.replace('.', '-')}}}")].count("\n") + 1


def is_of(task: Task, file: str, name: str) -> bool:
    """Whether a function of the solution is a task's target, or within it."""
    target = task.program
    return target.is_python and target.file == file and f"{name}.".startswith(f"{target.name}.")


def written_later(day: Day, text: str, calls: list[tuple[int, str, str]]) -> list[str]:
    """The lines of a chapter's sessions that need a task from further down, and do not say so."""
    found, lines = set(), text.splitlines()
    for line, file, name in calls:
        head = max(number for number in range(line) if lines[number].startswith("## "))
        said = "\n".join(lines[head:line])
        for task in (task for task in COURSE_TASKS if is_of(task, file, name)):
            anchor = f"#task-{task.id.replace('.', '-')}"
            later = (task.week, task.day) > (day.week, day.number)
            below = (task.week, task.day) == (day.week, day.number) and place_of(task, text) > line
            if (later or below) and f"]({anchor})" not in said:
                found.add(f"line {line} needs {task.id}, and no link above it to {anchor}")
    return sorted(found)


@every_day
def test_a_session_can_be_typed_or_says_when(day: Day) -> None:
    text = chapter_path(day).read_text(encoding="utf-8")
    assert written_later(day, text, played(chapter_path(day)).calls) == []


SESSION = "## Idea\n\n{}\n\n```pycon\n>>> softmax()\n```\n\n## Task {{#task-1-1-1}}\n\n>>> softmax()\n"


def test_a_session_of_what_is_written_later_is_found() -> None:
    calls = [(6, "basics.py", "softmax"), (11, "basics.py", "softmax"), (11, "basics.py", "softmax.<locals>.f")]
    assert written_later(DAYS[0], SESSION.format("Look:"), calls) == [
        "line 6 needs 1.1.1, and no link above it to #task-1-1-1"
    ]
    assert written_later(DAYS[0], SESSION.format("See [task 1](#task-1-1-1):"), calls) == []


def shown_too_early(day: Day, text: str, known: tuple[Scenario, ...]) -> list[str]:
    """The recorded outputs of a chapter in which a task is solved whose section has not come."""
    found = []
    for scenario in known:
        if place := re.search(rf"transcripts/{scenario.name}\.txt\}}", text):
            line = text.count("\n", 0, place.start()) + 1
            done = {
                task.id
                for task in COURSE_TASKS
                if (task.week, task.day) < (day.week, day.number)
                or ((task.week, task.day) == (day.week, day.number) and place_of(task, text) < line)
            }
            if not set(scenario.solved) <= done and "--solution" not in " ".join(scenario.typed):
                found.append(f"line {line}: {scenario.name} has solved {sorted(set(scenario.solved) - done)}")
    return found


@every_day
def test_a_recorded_output_can_have_come(day: Day) -> None:
    assert shown_too_early(day, chapter_path(day).read_text(encoding="utf-8"), scenarios()) == []


def test_an_output_that_is_shown_too_early_is_found() -> None:
    text = "{{#include ../../transcripts/a.txt}}\n" + "".join(f"## {{#task-1-1-{number}}}\n" for number in range(1, 5))
    assert shown_too_early(DAYS[0], text, (Scenario("a", ("test 1.1.1",), ("1.1.1",)),)) == [
        "line 1: a has solved ['1.1.1']"
    ]
    assert shown_too_early(DAYS[0], text, (Scenario("a", ("test 1.1.1 --solution",), ("1.1.1",)),)) == []
