"""Commands that run a tool on the checkout: `check`, `doctor`, `book`, `build-ext`."""

import os
import shutil
import subprocess

import click

from ..course.registry import UsageError, load_course
from ..course.requirements import GETTING_A_COMPILER, is_here
from ..paths import BOOK, LEARNER, ROOT, SOLUTION, typed
from ..programs.packages import LearnerError
from ..terminal.screen import say


@click.command(short_help="Run all that CI runs.")
def check() -> int:
    """Run all that CI runs, on this machine: tests, linters, types, the book. It takes minutes."""
    script = ROOT / ".ci" / "run"
    bash = shutil.which("bash")
    if bash is None:
        raise UsageError("This needs bash, which is not on the PATH. Without it:", "pdm run test-all")
    if not script.is_file():
        raise UsageError("There is no .ci/run in this checkout. To get it back:", f"git restore {typed(script)}")
    # The script finds the environment by itself, as it does in CI.
    environment = {name: value for name, value in os.environ.items() if name not in ("PDM_PROJECT_ROOT", "PYTHONPATH")}
    return 1 if subprocess.run([bash, str(script)], cwd=ROOT, env=environment).returncode else 0


@click.command(short_help="Say what is installed, what can be checked, and what to mend.")
def doctor() -> int:
    """Say what this machine and this checkout can do, and how to mend what is wrong; 1 if that stops the course."""
    from ..doctor.doctor import examine

    return examine()


@click.command(short_help="Show the book in your browser.")
@click.option("--build", is_flag=True, help="Build it in book/book, and serve nothing.")
def book(build: bool) -> int:
    """Serve the book and open it in a browser; Ctrl-C ends it."""
    from ..dev.book.mdbook import build_book, run_mdbook

    done = build_book(BOOK / "book") if build else run_mdbook("serve", "--open", str(BOOK))
    return 1 if done.returncode else 0


@click.command("build-ext", short_help="Build the C++ of your package, or of ours.")
@click.option("--solution", is_flag=True, help="Build that of solutions/tiny_llm.")
def build_ext(solution: bool) -> int:
    """Build the C++ of your package, if it has changed. Commands that need it do so by themselves."""
    from ..grading.build import build

    package = SOLUTION if solution else LEARNER
    recipes = list(dict.fromkeys(week.build for week in load_course().weeks if week.build))
    if not is_here("compiler"):
        fix = [GETTING_A_COMPILER] if GETTING_A_COMPILER else []
        raise UsageError("There is no C++ compiler, which this needs." + " To get one:" * bool(fix), *fix)
    for recipe in recipes:
        folder = (package / recipe).parent.relative_to(ROOT).as_posix()
        if finding := build(package, recipe):
            raise LearnerError("\n  ".join([finding.headline, *finding.lines]))
        say(f"{folder} is built.", colour="green")
    if not recipes:
        say("There is nothing to build yet.")
    return 0
