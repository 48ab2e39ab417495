"""`test-all`: what it runs."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from tiny_llm_course.commands.tools import test_all
from tiny_llm_course.paths import ROOT


def test_it_grades_the_solution_and_then_tests_the_course(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    CliRunner().invoke(test_all, ["--as-tested", "--durations", "5"], standalone_mode=False, catch_exceptions=False)
    graded, own = commands
    assert "--solution" in graded
    assert "--solution" not in own
    assert set(map(str, ROOT.glob("tests/week*"))) <= set(graded)
    assert {str(ROOT / "tests/course"), str(ROOT / "packages/metal-simulator/tests")} <= set(own)
    assert "--as-tested" in own
    assert "--as-tested" not in graded
    assert graded[-2:] == own[-2:] == ["--durations", "5"]
