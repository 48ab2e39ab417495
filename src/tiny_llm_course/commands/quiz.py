"""`pdm run quiz 1.1`: the questions of a chapter, asked in the terminal."""

import difflib
import hashlib
import string
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import click

from ..course.nouns import Day
from ..course.places import name_of, quiz_path, variants_path
from ..course.registry import UsageError, load_course
from ..course.selection import by_day, selected
from ..learner import progress, quizzes
from ..learner.board import next_task, standings
from ..terminal.screen import DIFFERENCE, say
from .options import names_of_tasks

if TYPE_CHECKING:
    from ..dev.book.questions import OfProgram, Option, Question

Thing = TypeVar("Thing")


class Ended(Exception):
    """No more answers will be given."""


@click.command(short_help="Answer a day's questions.")
@names_of_tasks
@click.option("--spoil", is_flag=True, help="Show the programs behind wrong answers before their tasks have passed.")
def quiz(names: tuple[str, ...], week: int | None, day: int | None, spoil: bool) -> int:
    """Answer the questions of a day's chapter (1.1); by default those of the day you are at.

    Type the letter or the number of an answer, Enter alone to skip a question, q to end. Each round has another order.
    Answers may also come from a pipe, one a line.
    """
    the_day = _day(names, week, day)
    from ..dev.book.quizzes import load_quiz

    before = quizzes.last_round(the_day)
    with _readable(the_day):
        questions = _shuffled(load_quiz(the_day).questions, before, lambda question: question.text)
    say(f"Quiz of week {the_day.week}, day {the_day.number}: {the_day.title}", bold=True)
    if before:
        say(f"Last time, {before.date}: {before.words}.")
    right = 0
    for number, question in enumerate(questions, 1):
        with _readable(the_day):
            options = _shuffled(question.options(the_day), before, lambda option: option.text)
        say()
        say(f"Question {number} of {len(questions)}", bold=True)
        _ask(question, options)
        try:
            answer = _answer(len(options))
        except Ended:
            say(f"Ended before the last question, so nothing is remembered. Again: pdm run quiz {the_day.name}")
            return 0
        if answer is not None:
            right += options[answer].right
            _comment(question, options[answer], options, spoil)
    say()
    say(f"{right} of {len(questions)} right. Once more, in another order: pdm run quiz {the_day.name}", bold=True)
    if not quizzes.remember(the_day, right, len(questions)):
        say(progress.FORGOTTEN)
    return 0


def _day(names: tuple[str, ...], week: int | None, day: int | None) -> Day:
    """The day whose questions are asked.

    Raises:
        UsageError: several days are named, or one without a quiz.
    """
    course = load_course()
    if names or week is not None or day is not None:
        (chosen, _), *others = by_day(selected(names, week, day, "quiz"))
        if others:
            raise UsageError("quiz takes one day:", f"pdm run quiz {chosen.name}")
    else:
        task = next_task(standings()) or course.tasks()[-1]
        chosen = course.day_of(task)
    if not quiz_path(chosen).is_file():
        there = ", ".join(each.name for each in course.days() if quiz_path(each).is_file())
        raise UsageError(f"Day {chosen.name} has no quiz; these days have one: {there or 'none'}.")
    return chosen


def _shuffled(things: Iterable[Thing], before: quizzes.Round | None, text: Callable[[Thing], str]) -> list[Thing]:
    """The things in the order of this round, which is the same until the round has been finished."""
    number = before.number if before else 0
    return sorted(things, key=lambda thing: hashlib.sha256(f"{number} {text(thing)}".encode()).digest())


@contextmanager
def _readable(day: Day) -> Iterator[None]:
    """Say in one line that what a question is about is gone: a measurement, a recorded message."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{name_of(quiz_path(day))}: {error}") from error


def _ask(question: "Question", options: "list[Option]") -> None:
    from ..terminal.markdown import show

    show(question.text)
    say()
    for letter, option in zip(string.ascii_lowercase, options, strict=False):
        show(option.text, f"  {letter}  ")


def _answer(count: int) -> int | None:
    """The number of the option that was chosen, counted from 0; None if the question was skipped.

    Raises:
        Ended: somebody typed q, or there is nothing more to read.
    """
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
        say(f"{typed[:20]!r} is no answer here.")


def _line(prompt: str) -> str:
    """What is typed, without spaces around it; what comes from a pipe is repeated.

    Raises:
        Ended: there is nothing more to read.
    """
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


def _comment(question: "Question", chosen: "Option", options: "list[Option]", spoil: bool) -> None:
    """Say what is to be said of an answer."""
    from ..dev.book.questions import OfProgram
    from ..terminal.markdown import show

    if chosen.right:
        say("✓ Right.", colour="green", bold=True)
        show(chosen.explanation, "  ")
        return
    say("✗ No.", colour="red", bold=True)
    show(chosen.explanation, "  ")
    if isinstance(question, OfProgram):
        _show_program(question, chosen, spoil)
    right = next(option for option in options if option.right)
    show(f"**Right:** {right.text}", "  ")
    show(right.explanation, "  ")


def _show_program(question: "OfProgram", chosen: "Option", spoil: bool) -> None:
    """Show what gives a wrong answer, beside ours: never to somebody who has yet to write it, unless they ask."""
    from ..programs.patched import source_of
    from ..source.excerpts import NoSuchCode, code_of_variant
    from ..testkit.variants import load_variants

    task = load_course().task(question.task)
    if not (spoil or progress.done(task)):
        say(f"  Its program is shown when {task.id} has passed, or by --spoil.")
        return
    known = next(known for known in load_variants(task).wrong_programs if known.name == chosen.mistake)
    if known.edits:
        say("  With this change of ours, the question's numbers give your answer:")
        before, after = (source_of(task.target, edits).splitlines() for edits in ((), known.edits))
        changed = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
        _code([line for line in changed if not line.startswith("@@")])
        return
    try:
        _, source = code_of_variant(variants_path(task), known.name)
    except NoSuchCode:
        return  # made by another function, of parts: nothing to read in one place
    say("  With this program, the question's numbers give your answer:")
    _code([f" {line}" for line in source.splitlines()])


def _code(lines: list[str]) -> None:
    """Print lines of code, each behind its sign, without the margin that all of them have."""
    code = textwrap.dedent("\n".join(line[1:] for line in lines)).split("\n")
    for sign, line in zip((line[:1] for line in lines), code, strict=True):
        say(f"    {sign} {line}".rstrip(), colour=DIFFERENCE.get(sign))  # whole: it may differ at its end
