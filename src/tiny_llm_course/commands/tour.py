"""`pdm run tour`: what the course is, in four commands that really run, in under 20 seconds.

The second runs on a folder in which the learner's package is the solution with one line changed: nothing of the
learner's is touched. The others run here, as a process for each would take a second more.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ..course.registry import UsageError, load_course
from ..dev.transcripts import Edit, scenarios
from ..paths import COURSE, ROOT, SOLUTION
from ..terminal.screen import say
from .generate import generate
from .status import status
from .test import test

MISTAKE = "scale-left-out"
TASK = "1.1.2"
PATIENCE = 10  # seconds that a command has after Ctrl-C
INTERRUPTED = 130  # its exit code then
STORY = ("generate", "Once upon a time", "--solution", "--seed", "6", "--max-tokens", "36")
HERE = {command.name: command for command in (generate, status, test)}


@click.command(short_help="See what the course is, in 20 seconds.")
def tour() -> int:
    """See the board, a mistake that is named, the solution passing, and a story, in 20 seconds."""
    day = load_course().weeks[0].days[0]
    _heading(1, "The board: what there is to build, and what you have built")
    board = _run("status")

    wrong = next(scenario for scenario in scenarios() if scenario.name == MISTAKE)
    edit = wrong.edits[0]
    _heading(2, "A mistake, and what you would read")
    say(f"Suppose that in {edit.file} you had written `{edit.put}`, where 1/sqrt(D) belongs:")
    say()
    with _folder_with(edit) as folder:
        named = _run_on(folder, "test", TASK)

    _heading(3, "The solution: what the same tests say of it")
    solved = _run("test", "--week", str(day.week), "--day", str(day.number), "--solution")

    _heading(4, "Where it leads: the engine, as far as it is built, and a model of 10 MB that comes with the course")
    told = _run(*STORY)

    say()
    say("Your turn", bold=True)
    say(
        f"Read day {day.number} (`pdm run book` shows the book in your browser), write the first function, and see "
        f"what it is worth: pdm run test --week {day.week} --day {day.number}"
    )
    as_it_should_be = (board, named, solved, told) == (0, 1, 0, 0)
    return 0 if as_it_should_be else 1


def _heading(number: int, title: str) -> None:
    if number > 1:
        say()
    say(f"{number} of 4 · {title}", bold=True)
    say()


def _type(words: tuple[str, ...]) -> None:
    say("$ pdm run " + " ".join(f'"{word}"' if " " in word else word for word in words), colour="cyan")


def _run(*words: str) -> int:
    """Show a command of the course and let it print; its exit code."""
    _type(words)
    try:
        done = HERE[words[0]].main(list(words[1:]), obj=(), standalone_mode=False)
    except UsageError as error:
        say(str(error), err=True)
        return 2
    if done == INTERRUPTED:  # it has said so, and nothing shall follow
        sys.exit(INTERRUPTED)
    return int(done)


def _run_on(folder: Path, *words: str) -> int:
    """The same, on the course's parts in another folder, which takes a process of its own."""
    _type(words)
    env = {**os.environ, "TINY_LLM_ROOT": str(folder), "PYTHONPATH": str(COURSE.parent)}
    process = subprocess.Popen([sys.executable, "-m", "tiny_llm_course", *words], cwd=folder, env=env)
    try:
        return process.wait()
    except KeyboardInterrupt:  # the command has it too, ends what it has started, and says so
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
        sys.exit(INTERRUPTED)


@contextmanager
def _folder_with(edit: Edit) -> Iterator[Path]:
    """What grading needs of a checkout, with the solution as the learner's package, but for an edit."""
    with tempfile.TemporaryDirectory(prefix="tiny-llm-") as name:
        folder = Path(name).resolve()
        package = folder / "src" / "tiny_llm"
        shutil.copytree(SOLUTION, package)
        file = package / edit.file
        file.write_text(file.read_text(encoding="utf-8").replace(edit.find, edit.put, 1), encoding="utf-8")
        shutil.copytree(ROOT / "tests" / "week1", folder / "tests" / "week1")
        for part in ("pyproject.toml", "solutions", "src/tiny_llm_course", "src/memory_watch", "src/metal_simulator"):
            (folder / part).symlink_to(ROOT / part)
        yield folder
