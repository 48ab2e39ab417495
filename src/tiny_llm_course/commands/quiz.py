"""`pdm run quiz 1.1`: a chapter's questions, asked in the terminal."""

import difflib
import hashlib
import string
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import click
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Column, Table
from rich.theme import Theme

from ..course.entities import Day
from ..course.file_paths import name_of, quiz_path, variants_path
from ..course.registry import UsageError, load_course
from ..course.selection import by_day
from ..dev.book.quizzes import OfProgram, Option, Question, load_quiz
from ..learner import progress, quizzes
from ..learner.board import next_task, standings
from ..programs.patched import source_of
from ..source.excerpts import NoSuchCode, code_of_variant
from ..terminal.screen import DIFFERENCE, USUAL, columns, in_color, say
from ..testkit.variants import load_variants
from .options import named_tasks, names_of_tasks

Thing = TypeVar("Thing")


class Ended(Exception):
    """The user typed q, or the input has ended."""


@click.command()
@names_of_tasks
@click.option("--spoil", is_flag=True, help="Show the programs of wrong answers even if their tasks have not passed.")
def quiz(names: tuple[str, ...], week: int | None, day: int | None, spoil: bool) -> int:
    """Answer the questions of a day's chapter (1.1); by default those of your current day.

    Type the letter or number of an answer, Enter to skip a question, q to stop. Each round has a new order. Answers may
    also come from a pipe, one per line.
    """
    the_day = _day(names, week, day)
    before = quizzes.last_round(the_day)
    with _readable(the_day):
        questions = _shuffled(load_quiz(the_day).questions, before, lambda question: question.text)
    say(f"Quiz of week {the_day.week}, day {the_day.number}: {the_day.title}", bold=True)
    if before:
        say(f"Last round, {before.date}: {before.words}.")
    right = 0
    for number, question in enumerate(questions, 1):
        with _readable(the_day):
            options = _shuffled(question.options(the_day), before, lambda option: option.text)
        say(f"\nQuestion {number} of {len(questions)}", bold=True)
        show(question.text)
        say()
        for letter, option in zip(string.ascii_lowercase, options, strict=False):
            show(option.text, f"  {letter}  ")
        try:
            answer = _answer(len(options))
        except Ended:
            say(f"Stopped before the last question, so nothing was recorded. To retry: pdm run quiz {the_day.name}")
            return 0
        if answer is not None:
            right += options[answer].right
            _comment(question, options[answer], options, spoil)
    say(f"\n{right} of {len(questions)} right. Again, in a new order: pdm run quiz {the_day.name}", bold=True)
    if not quizzes.remember(the_day, right, len(questions)):
        say(progress.FORGOTTEN)
    return 0


def _day(names: tuple[str, ...], week: int | None, day: int | None) -> Day:
    """Return the day to ask about; raise UsageError if several are named, or one without a quiz."""
    course = load_course()
    if named := named_tasks(names, week, day, "quiz"):
        (chosen, _), *others = by_day(named)
        if others:
            raise UsageError("quiz takes one day:", f"pdm run quiz {chosen.name}")
    else:
        chosen = course.day_of(next_task(standings()) or course.tasks()[-1])
    if not quiz_path(chosen).is_file():
        there = ", ".join(each.name for each in course.days() if quiz_path(each).is_file())
        raise UsageError(f"Day {chosen.name} has no quiz; days with a quiz: {there or 'none'}.")
    return chosen


def _shuffled(things: Iterable[Thing], before: quizzes.Round | None, text: Callable[[Thing], str]) -> list[Thing]:
    """Return the items in this round's order, which stays the same until the round is finished."""
    number = before.number if before else 0
    return sorted(things, key=lambda thing: hashlib.sha256(f"{number} {text(thing)}".encode()).digest())


@contextmanager
def _readable(day: Day) -> Iterator[None]:
    """Report in one line that a question's source, such as a measurement or recorded message, is missing."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{name_of(quiz_path(day))}: {error}") from error


def _answer(count: int) -> int | None:
    """Return the index of the chosen option, or None if the question was skipped; raise Ended after q."""
    letters = string.ascii_lowercase[:count]
    prompt = f"a to {letters[-1]}, Enter skips, q ends: "
    while True:
        typed = _line(prompt)
        if typed.lower() == "q":
            raise Ended
        if not typed:
            return None
        if len(typed) == 1 and typed.lower() in letters:
            return letters.index(typed.lower())
        if typed.isdecimal() and 1 <= int(typed) <= count:
            return int(typed) - 1
        say(f"{typed[:20]!r} is not an answer here.")


def _line(prompt: str) -> str:
    """Return a typed line, stripped, echoing piped input; raise Ended at the end of the input."""
    if sys.stdin is not None and sys.stdin.isatty():
        try:
            return input(prompt).strip()
        except (EOFError, KeyboardInterrupt) as end:
            say()
            if isinstance(end, KeyboardInterrupt):
                raise
            raise Ended from end
    typed = sys.stdin.readline() if sys.stdin is not None else ""
    say(f"{prompt}{typed.strip()}".rstrip())
    if not typed:
        raise Ended
    return typed.strip()


def _comment(question: Question, chosen: Option, options: list[Option], spoil: bool) -> None:
    say("✓ Right." if chosen.right else "✗ No.", color="green" if chosen.right else "red", bold=True)
    show(chosen.explanation, "  ")
    if chosen.right:
        return
    if isinstance(question, OfProgram):
        _show_program(question, chosen, spoil)
    right = next(option for option in options if option.right)
    show(f"**Right:** {right.text}", "  ")
    show(right.explanation, "  ")


def _show_program(question: OfProgram, chosen: Option, spoil: bool) -> None:
    """Show the program that gives a wrong answer; only if its task is done, or with --spoil."""
    task = load_course().task(question.task)
    if not (spoil or progress.done(task)):
        say(f"  Its program is shown once {task.id} has passed, or with --spoil.")
        return
    known = next(known for known in load_variants(task).wrong_programs if known.name == chosen.mistake)
    if known.edits:
        say("  With this edit of ours, the question's numbers give your answer:")
        before, after = (source_of(task.target, edits).splitlines() for edits in ((), known.edits))
        changed = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
        _code([line for line in changed if not line.startswith("@@")])
        return
    try:
        _, source = code_of_variant(variants_path(task), known.name)
    except NoSuchCode:
        return  # built from parts: no single place to read
    say("  With this program, the question's numbers give your answer:")
    _code([f" {line}" for line in source.splitlines()])


def _code(lines: list[str]) -> None:
    code = textwrap.dedent("\n".join(line[1:] for line in lines)).split("\n")
    for sign, line in zip((line[:1] for line in lines), code, strict=True):
        say(f"    {sign} {line}".rstrip(), color=DIFFERENCE.get(sign))


# The terminal's own colors and background.
THEME = Theme({"markdown.code": "cyan", "markdown.code_block": "cyan"})


def show(markdown: str, before: str = "") -> None:
    """Print Markdown with `before` ahead of its first line; the other lines align with the text."""
    console = Console(
        color_system="auto" if in_color(sys.stdout) else None,
        width=columns(sys.stdout) or USUAL,
        theme=THEME,
        highlight=False,
    )
    table = Table.grid(Column(width=len(before)), Column())
    table.add_row(before, Markdown(markdown, code_theme="ansi_dark"))
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    print("\n".join(lines).rstrip("\n"), flush=True)
