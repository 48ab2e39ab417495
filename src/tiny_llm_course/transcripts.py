"""Recorded sessions: what a learner sees for a given state of the learner's files, compared in CI.

`tests/course/transcripts/scenarios.toml` says which tasks are solved, what is then edited, and what is typed. A
scenario runs in a copy of the checkout, so that the learner's own files are never touched.
"""

import dataclasses
import difflib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from . import stubs
from .paths import ROOT, SOLUTION, TESTS
from .registry import load_course

FOLDER = TESTS / "course" / "transcripts"


@dataclasses.dataclass(frozen=True)
class Edit:
    """Replace `find` by `put` in a file of the learner's package; without `find`, append."""

    file: str
    put: str
    find: str = ""


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A state of the learner's files, and what is typed. Tasks in `solved` start from the solution."""

    name: str
    typed: tuple[str, ...]
    solved: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def file(self) -> Path:
        """Where the transcript is kept."""
        return FOLDER / f"{self.name}.txt"


@cache
def scenarios() -> tuple[Scenario, ...]:
    """All scenarios, in the order of the file."""
    table = tomllib.loads((FOLDER / "scenarios.toml").read_text(encoding="utf-8"))
    return tuple(
        Scenario(s["name"], tuple(s["typed"]), tuple(s.get("solved", ())), tuple(Edit(**e) for e in s.get("edits", ())))
        for s in table["scenarios"]
    )


def play(scenario: Scenario) -> str:
    """Run a scenario and give its transcript: each command, what it printed, and its exit code."""
    with checkout_for(scenario) as checkout:
        transcript = []
        for command in scenario.typed:
            done = run(command, checkout)
            transcript.append(f"$ pdm run {command}\n{done.stdout}[exit code {done.returncode}]\n")
    return "\n".join(transcript)


@contextmanager
def checkout_for(scenario: Scenario) -> Iterator[Path]:
    """A temporary copy of the checkout in which the learner's files are as the scenario says."""
    with tempfile.TemporaryDirectory(prefix="tiny-llm-") as folder:
        checkout = Path(folder, "tiny-llm")
        for name in ("src", "solutions", "tests", "benches", "book", "pyproject.toml"):
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, checkout / name)
        (checkout / "models").symlink_to(ROOT / "models")  # large, and only read
        _prepare(scenario, checkout / "src" / "tiny_llm")
        yield checkout


def run(command: str, checkout: Path) -> subprocess.CompletedProcess[str]:
    """Run one of the course's commands in a checkout; stdout and stderr come as one."""
    return subprocess.run(
        [sys.executable, "-m", "tiny_llm_course", *command.split()],
        cwd=checkout,
        env={**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": str(checkout / "src")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


def differences(scenario: Scenario) -> list[str]:
    """Nothing if the scenario prints what is recorded, else one line and the differing lines."""
    recorded = scenario.file.read_text(encoding="utf-8") if scenario.file.exists() else ""
    played = play(scenario)
    if recorded == played:
        return []
    lines = difflib.unified_diff(recorded.splitlines(), played.splitlines(), "recorded", "now", lineterm="", n=1)
    headline = f"the transcript {scenario.name} is not what is printed now (pdm run dev transcripts)"
    return ["\n".join([headline, *lines])]


def record(scenario: Scenario) -> bool:
    """Write the transcript; whether it changed."""
    before = scenario.file.read_text(encoding="utf-8") if scenario.file.exists() else ""
    played = play(scenario)
    scenario.file.write_text(played, encoding="utf-8")
    return played != before


def _prepare(scenario: Scenario, package: Path) -> None:
    tasks = load_course().tasks()
    every_target = {target for task in tasks for target in task.targets}
    unsolved = [task for task in tasks if task.id not in scenario.solved]
    shutil.rmtree(package)
    package.mkdir()
    for file in SOLUTION.glob("*.py"):
        left = {t.name: task for task in unsolved for t in task.targets if t.module == file.stem}
        text = stubs.stub_source(file.read_text(encoding="utf-8"), left, every_target)
        (package / file.name).write_text(text, encoding="utf-8")
    for edit in scenario.edits:
        file = package / edit.file
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if edit.find and edit.find not in text:
            raise ValueError(f"scenario {scenario.name}: {edit.file} does not hold {edit.find!r}")
        changed = text.replace(edit.find, edit.put, 1) if edit.find else text + edit.put
        file.write_text(changed, encoding="utf-8")
