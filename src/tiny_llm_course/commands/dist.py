"""`pdm run dist`: run a command on several ranks of this machine."""

import os
import shutil
import sys
from pathlib import Path

import click

from ..course.registry import LearnerError, UsageError
from ..paths import SOLUTION, shell_path
from .options import Finite

MOST = 64  # ranks: a typing mistake must not start a thousand processes


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("-n", "ranks", type=click.IntRange(1, MOST), required=True, help="How many ranks.")
@click.option(
    "--backend",
    type=click.Choice(["ring", "mpi", "any"]),
    default="ring",
    help="What carries messages: the ring, over TCP (default; also any, as every build of MLX has it), or mpi.",
)
@click.option(
    "--timeout",
    type=Finite(min=0),
    default=60,
    help="End ranks that wait for each other, after so many seconds without a call (default 60; 0: never).",
)
@click.option("--solution", is_flag=True, help="Programs import our tiny_llm instead of yours.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def dist(ranks: int, backend: str, timeout: float, solution: bool, command: tuple[str, ...]) -> int:
    """Run a command on several ranks of this machine, connected by mx.distributed.

    COMMAND is a command of the course, such as `train`, or a program, such as `python work.py`, which can import
    tiny_llm. Rank 0 prints as if it were alone; each line of rank 1 begins with "rank 1: ". Standard input is empty. If
    a rank dies, or if ranks wait for each other, all are stopped, and a message says what each of them was doing.
    """
    from ..ranks import Ranks, RanksFailed

    path = os.pathsep.join(filter(None, [str(SOLUTION.parent), os.environ.get("PYTHONPATH")]))
    own = {"PYTHONPATH": path} if solution else None
    with Ranks(_program(command), ranks, timeout=timeout or None, environment=own, backend=backend) as running:
        try:
            running.wait()
        except RanksFailed as error:
            raise LearnerError(str(error)) from None
    return 0


def _program(command: tuple[str, ...]) -> list[str]:
    """Return what to execute for a typed command; raise UsageError if there is no such program."""
    from .cli import SECTIONS

    name, *arguments = command
    if any(name in names for names in SECTIONS.values()):
        return [sys.executable, "-m", "tiny_llm_course", *command]
    if name in ("python", "python3"):
        return [sys.executable, *arguments]
    if shutil.which(name):
        return list(command)
    if name.endswith(".py") and Path(name).is_file():
        raise UsageError(
            f"{name} is a file that cannot be executed. Did you mean:",
            f"pdm run dist -n 2 -- python {shell_path(Path(name))}",
        )
    raise UsageError(f"There is neither a command of the course nor a program with the name {name!r}.")
