"""`pdm run grade-class FOLDER`: grade a folder of submissions on this checkout."""

import shutil
import subprocess
import sys
from pathlib import Path

import click

from ...course.registry import UsageError, load_course
from ...course.selection import selected
from ...dev.transcripts import Scenario, checkout_for, environment
from ...paths import LEARNER
from ...terminal.screen import say
from ..options import names_of_tasks
from .command import POINTS

PLACES = ("src/tiny_llm", "tiny_llm", ".")  # of the package in a submission
PROGRESS = ".tiny-llm/progress.json"  # it has the borrowed tasks, which later tasks need


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@names_of_tasks
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Default: FOLDER/results.")
@click.option("--points", type=click.Choice(POINTS), default=POINTS[0], show_default=True, help="As pdm run export.")
def grade_class(
    folder: Path, names: tuple[str, ...], week: int | None, day: int | None, out: Path | None, points: str
) -> int:
    """Grade each submission in FOLDER by the tests and the harness of this checkout; print a table.

    A submission is a folder with the learner's clone, or with a copy of its src/tiny_llm. Its name is the learner's.
    Only the package is used, and the list of borrowed tasks. For each one a Gradescope file NAME.json is written. The
    exit code is 1 if one of them could not be graded.
    """
    tasks = [task.id for task in selected(names, week, day, "grade-class FOLDER")]
    files = {task.target.file for task in load_course().tasks()}
    packages = {
        each.name: next((each / p for p in PLACES if any((each / p / file).is_file() for file in files)), None)
        for each in sorted(folder.iterdir())
        if each.is_dir() and not each.name.startswith(".") and each != (out or folder / "results")
    }
    if not any(packages.values()):
        raise UsageError(f"{folder} has no submission: each is a folder with src/tiny_llm in it.")
    out = (out or folder / "results").resolve()
    out.mkdir(parents=True, exist_ok=True)
    widest, failed = max(map(len, packages)), False
    for name, package in packages.items():
        status, row = _graded(package, folder / name, out / f"{name}.json", points, tasks)
        failed = failed or bool(status)
        say(f"{name:<{widest}}  {row}")
    return int(failed)


def _graded(package: Path | None, submission: Path, file: Path, points: str, tasks: list[str]) -> tuple[int, str]:
    """Export a submission's verdicts to a file; return the exit code and the row of the table."""
    if package is None:
        return 1, "not graded: there is no src/tiny_llm in it"
    with checkout_for(Scenario(submission.name, ())) as checkout:
        there = checkout / "src" / LEARNER.name
        ignored = shutil.ignore_patterns("__pycache__", ".*")
        try:
            shutil.copytree(package, there, symlinks=True, dirs_exist_ok=True, ignore=ignored)
            if (submission / PROGRESS).is_file():
                (checkout / PROGRESS).parent.mkdir()
                shutil.copy(submission / PROGRESS, checkout / PROGRESS)
        except OSError as error:  # an unreadable file, a pipe, a folder where we have a file
            return 1, f"not graded: it cannot be copied: {error}"
        command = [sys.executable, "-m", "tiny_llm_course", "export", "--format", "gradescope", "--points", points]
        done = subprocess.run(
            [*command, "--out", str(file), *tasks],
            cwd=checkout,
            env=environment(checkout),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
        )
    last = (done.stderr.strip().splitlines() or ["not graded"])[-1]
    return done.returncode, last.removeprefix(f"{file}: ")
