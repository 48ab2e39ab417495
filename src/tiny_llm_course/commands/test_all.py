"""`pdm run test-all`: grade the solution and test the program, on all cores, with an estimate of the time."""

import subprocess
import sys

import click

from ..paths import ROOT

# What runs, and its seconds on two cores, from which the time of later parts on this machine is estimated.
PARTS = {
    "The solution, graded by all tests of the course": (["--solution", "tests/week*"], 180),
    "The program: its commands, its diagnosis, its simulator": (["tests/course", "packages/*/tests"], 250),
}


@click.command("test-all", context_settings={"ignore_unknown_options": True})
@click.option("--as-tested", is_flag=True, help="Skip what is recorded as passed for the same content.")
@click.argument("pytest_args", nargs=-1, metavar="[PYTEST'S OPTIONS]...")
def test_all(as_tested: bool, pytest_args: tuple[str, ...]) -> int:
    """Grade the solution with all tests of the course, and test the program, on all cores."""
    failed = 0
    left = sum(seconds for _, seconds in PARTS.values())
    for title, (arguments, seconds) in PARTS.items():
        left -= seconds
        click.secho(f"\n{title}", bold=True)
        files = [name for each in arguments for name in sorted(map(str, ROOT.glob(each))) or [each]]
        # The tests of a file share fixtures; the files run in the order of tests/course/conftest.py.
        workers = ["-n", "auto", "--dist", "loadfile", "--no-loadscope-reorder"]
        command = [sys.executable, "-P", "-m", "pytest", *files, *workers, "-q", "-m", "not maintainers"]
        countdown = ["-p", "tiny_llm_course.grading.countdown", f"--takes={seconds}", f"--then={left}"]
        if as_tested and "tests/course" in arguments:
            command.append("--as-tested")
        failed |= subprocess.run([*command, *countdown, *pytest_args], cwd=ROOT).returncode
    return 1 if failed else 0
