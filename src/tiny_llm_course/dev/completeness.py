"""What a day still needs, in the order in which a day is written, each with its place and the command that makes it."""

import re
from collections.abc import Iterator
from pathlib import Path

from ..course import file_paths
from ..course.entities import Day
from ..course.file_paths import name_of
from ..course.registry import load_course
from ..doctor.git import ask_git
from ..paths import BOOK, SOLUTION, shell_path
from ..source.languages import language_of_target
from .book.quizzes import load_quiz

UNTITLED = "Untitled"  # what `dev new-day` calls what it was given no title for
QUESTIONS = range(2, 5)  # that a quiz has
OPEN_TASK = "CONTRIBUTING.md, The open task of a week, says what is in it"
EMPTY_SECTION = re.compile(r"^## (.+)\n\s*(?=## |\Z)", re.MULTILINE)


def for_the_proof(day: Day) -> list[str]:
    """Return what is missing to run the day's tests and known programs."""
    found = []
    for task in day.tasks:
        file = SOLUTION / task.target.file
        defined = language_of_target(task.target).signatures
        if not file.is_file() or task.target.name not in defined(file.read_text(encoding="utf-8"), task.target.name):
            found.append(f"{task.id}: {task.target} is not in the solution ({name_of(file)})")
    course = load_course()
    needs = {need for task in day.tasks for need in course.needs(task.id)}  # whose mistakes are injected
    programs = list(map(file_paths.variants_path, [*day.tasks, *map(course.task, sorted(needs))]))
    known = {**dict.fromkeys(file_paths.tests_paths(day.tasks), "tests"), **dict.fromkeys(programs, "known programs")}
    files = dict.fromkeys([*file_paths.day_files(day), *programs])
    return found + [_no(day, known.get(file, "module"), file) for file in files if not file.is_file()]


def for_the_book(day: Day) -> Iterator[str]:
    """Yield what else the day is missing."""
    for title, what in ((load_course().week(day.week).title, f"week {day.week}"), (day.title, "the day")):
        if title == UNTITLED:
            yield f"{day.name}: {what} has no title ({name_of(file_paths.registry_path(day.week))})"
    for task in day.tasks:
        file = file_paths.tests_path(task)
        if file.is_file() and not task.judges and f"def test_{task.tests}_sweep(" not in file.read_text("utf-8"):
            yield f"{task.id}: no sweep, test_{task.tests}_sweep ({name_of(file)})"
    recordings = file_paths.recordings_path(day)
    if file_paths.asks_pytorch(day) and not recordings.is_file():
        yield _no(day, "recordings", recordings, f"pdm run dev record --week {day.week} --day {day.number}")
    if file_paths.chapter_path(day).is_file():
        yield from _chapter(day)
    else:
        yield _no(day, "chapter", file_paths.chapter_path(day))
    if day.is_open:
        return
    if file_paths.quiz_path(day).is_file():
        count = len(load_quiz(day).questions)
        if count not in QUESTIONS:
            has = f"{count} question{'s' * (count != 1)}"
            yield f"{day.name}: its quiz has {has}, 2 to 4 are needed ({name_of(file_paths.quiz_path(day))})"
    else:
        yield _no(day, "quiz", file_paths.quiz_path(day))
    if not file_paths.bench_path(day).is_file():
        yield _no(day, "measurement", file_paths.bench_path(day))
    elif not file_paths.record_path(day).is_file():
        yield _no(day, "record of its measurement", file_paths.record_path(day), f"pdm run dev bench {day.name}")


def _chapter(day: Day) -> Iterator[str]:
    summary, chapter = BOOK / "src" / "SUMMARY.md", file_paths.chapter_path(day)
    if f"{day.title}]({day.chapter})" not in summary.read_text(encoding="utf-8"):
        yield f"{day.name}: no {link_to(day)} in {name_of(summary)}"
    text = chapter.read_text(encoding="utf-8")
    engine_map = f"{{{{#include ../generated/{day.name}.md:map}}}}"
    if any(task.makes for task in day.tasks) and engine_map not in text:
        yield f"{day.name}: it makes a part of the engine, and the chapter has no {engine_map} ({name_of(chapter)})"
    if empty := EMPTY_SECTION.findall(text):
        yield f"{day.name}: nothing below {', '.join(map(repr, empty))} ({name_of(chapter)})"


def link_to(day: Day) -> str:
    """Return the line of the day's chapter in the book's table of contents."""
    number = f"{day.called.capitalize()}:" if day.is_open else day.name
    return f"[{number} {day.title}]({day.chapter})"


def _no(day: Day, what: str, file: Path, command: str = "") -> str:
    """Report a missing file: git restores a committed one, `new-day` scaffolds those of a numbered day."""
    if ask_git("ls-files", "--error-unmatch", name_of(file)).returncode == 0:
        command = f"git restore {shell_path(file)}"
    else:
        command = command or (OPEN_TASK if day.is_open else f"pdm run dev new-day {day.name}")
    return f"{day.name}: no {what} {name_of(file)} ({command})"
