"""`pdm run tour`: what the course is, in four commands that really run, in under 20 seconds.

The second runs in a copy of the checkout, in which one line of the solution is another: nothing of the learner's is
touched.
"""

import os
import subprocess
import sys
from pathlib import Path

import click

from .paths import BOOK, ROOT
from .registry import load_course
from .screen import say
from .transcripts import Scenario, checkout_for, scenarios

MISTAKE = "scale-left-out"
TASK = "1.1.2"
PATIENCE = 10  # seconds that a command has after Ctrl-C
STORY = ("generate", "Once upon a time", "--solution", "--seed", "1", "--max-tokens", "60")


@click.command(short_help="See what the course is, in 20 seconds.")
def tour() -> int:
    """See the board, a mistake that is named, the solution passing, and a story, in 20 seconds."""
    day = load_course().weeks[0].days[0]
    _heading(1, "The board: what there is to build, and what you have built")
    board = _run(["status"], ROOT)

    wrong = next(scenario for scenario in scenarios() if scenario.name == MISTAKE)
    edit = wrong.edits[0]
    _heading(2, "A mistake, and what you would read")
    say(f"Suppose that in {edit.file} you had written `{edit.put}`, where 1/sqrt(D) belongs:")
    say()
    with checkout_for(Scenario(wrong.name, wrong.typed, wrong.solved, wrong.edits)) as checkout:
        named = _run(["test", TASK], checkout)

    _heading(3, "The solution: what the same tests say of it")
    solved = _run(["test", "--week", str(day.week), "--day", str(day.number), "--solution"], ROOT)

    _heading(4, "Where it leads: the engine of the first week, and a model of 10 MB that comes with the course")
    told = _run(list(STORY), ROOT)

    say()
    say("Your turn", bold=True)
    chapter = (BOOK / "src" / day.chapter).relative_to(ROOT).as_posix()
    say(
        f"Read {chapter} (or `pdm run book`), write the first function, and see what it is worth: "
        f"pdm run test --week {day.week} --day {day.number}"
    )
    as_it_should_be = (board, named, solved, told) == (0, 1, 0, 0)
    return 0 if as_it_should_be else 1


def _heading(number: int, title: str) -> None:
    if number > 1:
        say()
    say(f"{number} of 4 · {title}", bold=True)
    say()


def _run(command: list[str], checkout: Path) -> int:
    """Show a command of the course and let it print; its exit code."""
    say("$ pdm run " + " ".join(f'"{word}"' if " " in word else word for word in command), colour="cyan")
    env = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    process = subprocess.Popen([sys.executable, "-m", "tiny_llm_course", *command], cwd=checkout, env=env)
    try:
        return process.wait()
    except KeyboardInterrupt:  # the command has it too, ends what it has started, and says so
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
        sys.exit(130)
