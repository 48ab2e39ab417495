"""Commands that run a tool on the checkout: `check`, `test-all`, `doctor`, `book`, `build-ext`."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import click

from ..course.file_paths import tests_paths
from ..course.registry import LearnerError, UsageError, load_course
from ..course.requirements import GETTING_A_COMPILER, is_here
from ..paths import BOOK, LEARNER, ROOT, SOLUTION, shell_path
from ..terminal.screen import say

# What `test-all` runs, and its seconds on two cores, from which the time of later parts on this machine is estimated.
PARTS = {
    "The solution, graded by all tests of the course": (["--solution", "tests/week*"], 180),
    "The program: its commands, its diagnosis, its simulator": (["tests/course", "packages/*/tests"], 250),
}


@click.command()
def check() -> int:
    """Run everything that CI runs, on this machine: tests, linters, types, the book. It takes minutes."""
    script = ROOT / ".ci" / "run"
    bash = shutil.which("bash")
    if bash is None:
        raise UsageError("This needs bash, which is not on the PATH. Without bash:", "pdm run test-all")
    if not script.is_file():
        raise UsageError("There is no .ci/run in this checkout. To restore it:", f"git restore {shell_path(script)}")
    # The script finds the environment itself, as in CI.
    environment = {name: value for name, value in os.environ.items() if name not in ("PDM_PROJECT_ROOT", "PYTHONPATH")}
    return 1 if subprocess.run([bash, str(script)], cwd=ROOT, env=environment).returncode else 0


@click.command("test-all", context_settings={"ignore_unknown_options": True})
@click.option("--as-tested", is_flag=True, help="Skip what is proven or recorded as passed for the same content.")
@click.argument("pytest_args", nargs=-1, metavar="[PYTEST'S OPTIONS]...")
def test_all(as_tested: bool, pytest_args: tuple[str, ...]) -> int:
    """Grade the solution with all tests of the course, and test the program, on all cores."""
    failed = 0
    left = sum(seconds for _, seconds in PARTS.values())
    for title, (arguments, seconds) in PARTS.items():
        left -= seconds
        click.secho(f"\n{title}", bold=True)
        graded = "--solution" in arguments
        files = _not_proven() if as_tested and graded else [file for each in arguments for file in ROOT.glob(each)]
        if not files:
            continue
        # The tests of a file share fixtures; the files run in the order of tests/course/conftest.py.
        workers = ["-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"]
        command = [sys.executable, "-P", "-m", "pytest", *map(str, sorted(files)), *workers, "-q"]
        command += ["-m", "not maintainers"]
        countdown = ["-p", "tiny_llm_course.grading.countdown", f"--takes={seconds}", f"--then={left}"]
        command += ["--solution"] * graded + ["--as-tested"] * (as_tested and not graded)
        failed |= subprocess.run([*command, *countdown, *pytest_args], cwd=ROOT).returncode
    return 1 if failed else 0


def _not_proven() -> list[Path]:
    """Return the graded tests of tasks without a current proof: all others have passed when they were proven."""
    from ..dev import proof_store

    tasks = load_course().tasks()
    proven = proof_store.look_up(tasks)
    click.echo(f"{len(proven)} of {len(tasks)} tasks are as proven; the files of the others are graded.")
    return tests_paths(task for task in tasks if task not in proven)


@click.command()
def doctor() -> int:
    """Check this machine and this checkout, and print a fix for each problem; exit code 1 if one blocks the course."""
    from ..doctor.doctor import examine
    from ..learner.board import next_step, standings

    return examine(lambda: next_step(standings())[1])


@click.command()
@click.option("--build", is_flag=True, help="Only build it, in book/book.")
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True, help="Port to serve it at.")
@click.option("--no-open", is_flag=True, help="Do not open a browser.")
def book(build: bool, port: int, no_open: bool) -> int:
    """Serve the book and open it in a browser; Ctrl-C stops it."""
    from ..dev.book.page_metadata import build_book, run_mdbook

    if build:
        return 1 if build_book(BOOK / "book").returncode else 0
    with socket.socket() as free:  # mdBook would build the book first, and then panic
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            free.bind(("localhost", port))
        except OSError as error:
            raise UsageError(f"Port {port} cannot be used: {error.strerror}. Try another --port.") from None
    return 1 if run_mdbook("serve", *["--open"] * (not no_open), "--port", str(port), str(BOOK)).returncode else 0


@click.command("build-ext")
@click.option("--solution", is_flag=True, help="Build the one in solutions/tiny_llm.")
def build_ext(solution: bool) -> int:
    """Build the C++ extension of your package, if it has changed. Commands that need it build it themselves."""
    from ..grading.build import build

    package = SOLUTION if solution else LEARNER
    recipes = list(dict.fromkeys(week.build for week in load_course().weeks if week.build))
    if not is_here("compiler"):
        fix = [GETTING_A_COMPILER] if GETTING_A_COMPILER else []
        raise UsageError("This needs a C++ compiler." + " To install one:" * bool(fix), *fix)
    for recipe in recipes:
        folder = (package / recipe).parent.relative_to(ROOT).as_posix()
        if finding := build(package, recipe):
            raise LearnerError("\n  ".join([finding.headline, *finding.lines]))
        say(f"{folder} is built.", color="green")
    if not recipes:
        say("There is nothing to build yet.")
    return 0
