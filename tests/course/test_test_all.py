"""`test-all`: what it runs."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tiny_llm_course.commands.tools import test_all
from tiny_llm_course.course import file_paths
from tiny_llm_course.course.entities import Task
from tiny_llm_course.course.registry import load_course
from tiny_llm_course.dev import proof_store
from tiny_llm_course.paths import ROOT


def commands_of(*options: str, proven: Sequence[Task] = ()) -> list[list[str]]:
    """Return what `test-all` would run, with these tasks as proven."""
    commands: list[list[str]] = []

    def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", run)
        patch.setattr(proof_store, "look_up", lambda tasks: dict.fromkeys(proven))
        CliRunner().invoke(test_all, options, standalone_mode=False, catch_exceptions=False)
    return commands


def test_it_grades_the_solution_and_then_tests_the_course() -> None:
    graded, own = commands_of("--durations", "5")
    assert "--solution" in graded
    assert "--solution" not in own
    assert set(map(str, ROOT.glob("tests/week*"))) <= set(graded)
    assert {str(ROOT / "tests/course"), str(ROOT / "packages/metal-simulator/tests")} <= set(own)
    assert "--as-tested" not in graded + own
    assert graded[-2:] == own[-2:] == ["--durations", "5"]


def test_as_tested_it_grades_only_what_is_not_proven() -> None:
    tasks = load_course().tasks()
    unproven = load_course().task("1.4.2")
    graded, own = commands_of("--as-tested", proven=[task for task in tasks if task != unproven])
    assert [each for each in graded if each.endswith(".py")] == [str(file_paths.tests_path(unproven))]
    assert "--as-tested" in own
    (own,) = commands_of("--as-tested", proven=tasks)  # pytest without a file would run all
    assert str(ROOT / "tests/course") in own
