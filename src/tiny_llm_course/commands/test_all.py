"""`pdm run test-all`: grade the solution and test the course itself, on all cores, and say how long that will take."""

import subprocess
import sys

import click

from ..paths import ROOT, TESTS

# What is run, and the seconds that it takes on two cores: they say how long the later parts will take on this machine.
PARTS = {
    "The solution, graded by all tests of the course": (["--solution", "tests/week*"], 200),
    "The course itself: its commands, its diagnosis, its simulator": (["tests/course", "tests/metal_simulator"], 250),
}


@click.command(
    "test-all", context_settings={"ignore_unknown_options": True}, short_help="Run every test of the course."
)
@click.argument("pytest_args", nargs=-1, metavar="[PYTEST'S OPTIONS]...")
def test_all(pytest_args: tuple[str, ...]) -> int:
    """Grade the solution with all tests of the course, and test the course itself, on all cores."""
    failed = 0
    left = sum(seconds for _, seconds in PARTS.values())
    for title, (arguments, seconds) in PARTS.items():
        left -= seconds
        click.secho(f"\n{title}", bold=True)
        files = [path for argument in arguments for path in _files(argument)]
        # Each file's tests stay together: they share what they have prepared.
        workers = ["-n", "auto", "--dist", "loadfile"]
        command = [sys.executable, "-P", "-m", "pytest", *files, *workers, "-q", "-m", "not maintainers"]
        countdown = ["-p", "tiny_llm_course.grading.countdown", f"--takes={seconds}", f"--then={left}"]
        failed |= subprocess.run([*command, *countdown, *pytest_args], cwd=ROOT).returncode
    return 1 if failed else 0


def _files(argument: str) -> list[str]:
    return sorted(map(str, TESTS.parent.glob(argument))) if "*" in argument else [argument]
