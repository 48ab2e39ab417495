"""`dev refresh`: regenerate what is made from a day's files; the book comes last, as it quotes the others."""

import importlib.util
import shlex
import subprocess
import sys
from collections.abc import Iterator

from ..course.entities import Day
from ..course.file_paths import asks_pytorch, bench_path, chapter_path, quiz_path, record_path
from ..course.registry import load_course
from ..paths import BOOK, ROOT
from ..terminal.screen import say
from . import transcripts
from .book.quizzes import load_quiz


def main(day: Day, measure: bool) -> int:
    """Run a day's steps, naming each; stop at the first failure and return its exit code."""
    for words, reason in steps(day, measure):
        if reason:
            say(f"Not run: dev {words}. {reason}")
            continue
        say(f"pdm run dev {words}")
        command = [sys.executable, "-m", "tiny_llm_course", "dev", *shlex.split(words)]
        if status := subprocess.run(command, cwd=ROOT).returncode:
            say(f"Stopped: `pdm run dev {words}` failed with exit code {status}.", color="red")
            return status
    say(f"What is still missing: pdm run dev check {day.name}")
    return 0


def steps(day: Day, measure: bool) -> Iterator[tuple[str, str]]:
    """Yield the commands in order, each with the reason to skip it, or an empty string."""
    yield "stubs", ""
    if asks_pytorch(day):
        absent = not importlib.util.find_spec("torch")
        yield f"record --week {day.week} --day {day.number}", "PyTorch is not installed." if absent else ""
    if bench_path(day).is_file():
        recorded = record_path(day).is_file() and not measure
        yield f"bench {day.name}", "Its record is there; --bench measures again." if recorded else ""
    if names := [scenario.name for scenario in scenarios_of(day)]:
        yield f"transcripts {' '.join(names)}", ""
    yield f"book {day.name}", ""


def scenarios_of(day: Day) -> list[transcripts.Scenario]:
    """Return the scenarios shown in a day's chapter and quiz; the first day also owns those of all other pages."""
    chapters, pages = [chapter_path(each) for each in load_course().days()], [chapter_path(day)]
    if pages == chapters[:1]:
        pages += [page for page in (BOOK / "src").rglob("*.md") if page not in chapters]
    text = "".join(page.read_text(encoding="utf-8") for page in pages if page.is_file())
    asked = load_quiz(day).transcripts if quiz_path(day).is_file() else set()
    return [each for each in transcripts.scenarios() if f"transcripts/{each.name}.txt" in text or each.name in asked]
