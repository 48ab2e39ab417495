"""`pdm run tour`: the course in four real commands, in about a minute; the second in a temporary, edited checkout."""

import subprocess
import sys
from pathlib import Path

import click

from ..course.registry import UsageError, load_course
from ..dev.transcripts import checkout_for, environment, scenarios
from ..terminal.screen import say
from .generate import generate
from .status import status
from .test import test

MISTAKE = "scale-left-out"
TASK = "1.1.2"
PATIENCE = 10  # seconds for a command to end after Ctrl-C
INTERRUPTED = 130  # exit code after Ctrl-C
STORY = ("generate", "Once upon a time", "--solution", "--seed", "6", "--max-tokens", "36")
HERE = {command.name: command for command in (generate, status, test)}


@click.command()
def tour() -> int:
    """Show the board, a named mistake, the solution passing, and a story, in about a minute."""
    day = load_course().weeks[0].days[0]
    _heading(1, "The board: what there is to build, and what you have built")
    board = _run("status")

    mistake = next(scenario for scenario in scenarios() if scenario.name == MISTAKE)
    (edit,) = mistake.edits
    _heading(2, "A mistake, and the message you would get")
    say(f"Suppose you had written `{edit.put}` in {edit.file}, where 1/sqrt(D) belongs:\n")
    with checkout_for(mistake) as checkout:
        named = _run_on(checkout, "test", TASK)

    _heading(3, "The solution, under the same tests")
    solved = _run("test", "--week", str(day.week), "--day", str(day.number), "--solution")

    _heading(4, "The result: our engine, running the 10 MB model included in the course")
    story = _run(*STORY)

    say("\nYour turn", bold=True)
    say(
        f"Read day {day.number} (`pdm run book` opens the book in your browser), write the first function, and grade "
        f"it: pdm run test --week {day.week} --day {day.number}"
    )
    return int((board, named, solved, story) != (0, 1, 0, 0))


def _heading(number: int, title: str) -> None:
    say(f"{chr(10) * (number > 1)}{number} of 4 · {title}\n", bold=True)


def _type(words: tuple[str, ...]) -> None:
    say("$ pdm run " + " ".join(f'"{word}"' if " " in word else word for word in words), color="cyan")


def _run(*words: str) -> int:
    """Run a command of the course in this process, and return its exit code."""
    _type(words)
    try:
        done = HERE[words[0]].main(list(words[1:]), obj=(), standalone_mode=False)
    except UsageError as error:
        say(str(error), err=True)
        return 2
    if done == INTERRUPTED:  # the command has printed that
        sys.exit(INTERRUPTED)
    return int(done)


def _run_on(checkout: Path, *words: str) -> int:
    """Run a command on another checkout, in a process of its own, and return its exit code."""
    _type(words)
    command = [sys.executable, "-m", "tiny_llm_course", *words]
    process = subprocess.Popen(command, cwd=checkout, env=environment(checkout))
    try:
        return process.wait()
    except KeyboardInterrupt:  # the command gets it too, ends its children, and reports it
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
        sys.exit(INTERRUPTED)
