"""Recorded sessions: what a learner sees for a given state of the learner's files, compared in CI.

`book/transcripts/scenarios.toml` says which tasks are solved, what is then edited, and what is typed; perhaps in
several steps, of which each begins where the one before has ended. A scenario runs in a checkout of its own, so that
the learner's own files are never touched. Of dates and times every transcript has the same.
"""

import dataclasses
import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from ..course.registry import load_course
from ..paths import COURSE, EMBEDDED_MODEL, LEARNER, REGISTRY, ROOT, SOLUTION, TESTS, WATCHERS
from ..programs.launches import KEPT
from ..source.package import write_stubs
from . import machine

FOLDER = Path("book", "transcripts")
# What a course is made of, besides the learner's package.
PARTS = ("*.md", "pyproject.toml", "benches", "book", "solutions", "tests/week*", REGISTRY.relative_to(ROOT).as_posix())


KNOWN = TESTS / "proofs" / "transcripts.json"  # by name: the state of everything with which it was as recorded
WHEN = "2026-11-02 09:30"
DATE = re.compile(r"\b\d{4}-\d\d-\d\d(?: \d\d:\d\d)?\b")


@dataclasses.dataclass(frozen=True)
class Edit:
    """Replace `find` by `put` in a file of the learner's package; without `find`, append."""

    file: str
    put: str
    find: str = ""


@dataclasses.dataclass(frozen=True)
class Step:
    """What is edited, and then typed: commands, of which each is given the `answers`, a line each, to what it asks."""

    typed: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    answers: tuple[str, ...] = ()

    @classmethod
    def read(cls, table: dict[str, Any]) -> "Step":
        """The step that a table of the file holds."""
        edits = tuple(Edit(**edit) for edit in table.get("edits", ()))
        return cls(tuple(table["typed"]), edits, tuple(table.get("answers", ())))


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A state of the learner's files, what is typed, and what is done after it. `solved` start from the solution."""

    name: str
    typed: tuple[str, ...]
    solved: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    root: Path = ROOT  # of the course
    steps: tuple[Step, ...] = ()

    @property
    def file(self) -> Path:
        """Where the transcript is kept."""
        return self.root / FOLDER / f"{self.name}.txt"


@cache
def scenarios(root: Path = ROOT) -> tuple[Scenario, ...]:
    """All scenarios of a course, in the order of the file; none if there is no file."""
    file = root / FOLDER / "scenarios.toml"
    table = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"scenarios": []}
    return tuple(
        Scenario(
            s["name"], tuple(s["typed"]), tuple(s.get("solved", ())),
            tuple(Edit(**e) for e in s.get("edits", ())), root, tuple(map(Step.read, s.get("steps", ()))),
        )
        for s in table["scenarios"]
    )  # fmt: skip


def play(scenario: Scenario) -> str:
    """Run a scenario and give its transcript: each command, what it printed, and its exit code."""
    with checkout_for(scenario) as checkout:
        KEPT.mkdir(parents=True, exist_ok=True)
        (checkout / ".tiny-llm").mkdir()
        (checkout / ".tiny-llm" / KEPT.name).symlink_to(KEPT)  # what is compiled already need not be compiled again
        transcript = []
        for step in (Step(scenario.typed), *scenario.steps):
            _edit(scenario.name, step.edits, checkout)
            for command in step.typed:
                done = run(command, checkout, step.answers)
                printed = DATE.sub(lambda date: WHEN[: len(date[0])], done.stdout)
                transcript.append(f"$ pdm run {command}\n{printed}[exit code {done.returncode}]\n")
    return "\n".join(transcript)


@contextmanager
def checkout_for(scenario: Scenario) -> Iterator[Path]:
    """A temporary copy of the course, without the harness, in which the learner's files are as the scenario says."""
    with tempfile.TemporaryDirectory(prefix="tiny-llm-") as folder:
        checkout = Path(folder, "tiny-llm")
        for part in PARTS:
            for source in scenario.root.glob(part):
                copy = checkout / source.relative_to(scenario.root)
                copy.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    shutil.copy(source, copy)
        if (scenario.root / "models").exists():
            (checkout / "models").symlink_to(scenario.root / "models")  # large, and only read
        _prepare(scenario, checkout)
        yield checkout


def environment(checkout: Path) -> dict[str, str]:
    """The environment in which the program of this harness works on another checkout."""
    path = os.pathsep.join(map(str, (checkout / "src", COURSE.parent)))
    return {**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": path, "TINY_LLM_ROOT": str(checkout)}


def run(command: str, checkout: Path, answers: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run one of the course's commands in a checkout, with lines to read; stdout and stderr come as one."""
    return subprocess.run(
        [sys.executable, "-m", "tiny_llm_course", *shlex.split(command)],
        cwd=checkout,
        env=environment(checkout),
        input="".join(f"{answer}\n" for answer in answers),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


def is_proven(scenario: Scenario) -> bool:
    """Return whether nothing has changed since the scenario came out as recorded."""
    return _known().get(scenario.name) == state(scenario)


def keep(some: Iterable[Scenario]) -> None:
    """Note that these scenarios come out as recorded now."""
    names = {each.name for each in scenarios()}
    known = {name: state for name, state in _known().items() if name in names}
    known |= {each.name: state(each) for each in some}
    KNOWN.parent.mkdir(exist_ok=True)
    KNOWN.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", encoding="utf-8", newline="\n")


def state(scenario: Scenario) -> str:
    """Return a hash of a scenario, its transcript, and everything that its commands may read or be run by."""
    recorded = scenario.file.read_bytes() if scenario.file.is_file() else b""
    anywhere = dataclasses.replace(scenario, root=Path())
    return hashlib.sha256(f"{anywhere}{_checkout_state()}".encode() + recorded).hexdigest()[:32]


def _known() -> dict[str, str]:
    try:
        known: dict[str, str] = json.loads(KNOWN.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known


@cache
def _checkout_state() -> str:
    """Return a hash of the machine, the harness, and the parts of the checkout; of the book's pages, their names."""
    digest = hashlib.sha256(machine.with_compiler().encode())
    parts = [path for part in PARTS for path in ROOT.glob(part)]
    for path in [*parts, COURSE, *WATCHERS, LEARNER, EMBEDDED_MODEL]:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            hidden = any(part.startswith((".", "__pycache__")) for part in file.relative_to(path).parts)
            made = any(
                file.is_relative_to(ROOT / folder) for folder in (FOLDER, "book/book", "book/generate/inputs.json")
            )
            if file.is_file() and not (hidden or made):
                name = os.path.relpath(file, ROOT)
                content = b"" if file.suffix == ".md" else file.read_bytes()
                digest.update(f"{name} {hashlib.sha256(content).hexdigest()}".encode())
    return digest.hexdigest()


def differences(scenario: Scenario) -> list[str]:
    """Nothing if the scenario prints what is recorded, else one line and the differing lines."""
    recorded = scenario.file.read_text(encoding="utf-8") if scenario.file.exists() else ""
    played = play(scenario)
    if recorded == played:
        return []
    lines = difflib.unified_diff(recorded.splitlines(), played.splitlines(), "recorded", "now", lineterm="", n=1)
    headline = f"the transcript {scenario.name} is not what is printed now (pdm run dev transcripts {scenario.name})"
    return ["\n".join([headline, *lines])]


def record(scenario: Scenario) -> bool:
    """Write the transcript; whether it changed."""
    before = scenario.file.read_text(encoding="utf-8") if scenario.file.exists() else ""
    played = play(scenario)
    scenario.file.write_text(played, encoding="utf-8")
    return played != before


def _prepare(scenario: Scenario, checkout: Path) -> None:
    solution, package, registry = (checkout / path.relative_to(ROOT) for path in (SOLUTION, LEARNER, REGISTRY))
    write_stubs(solution, package, load_course(registry), scenario.solved)
    _edit(scenario.name, scenario.edits, checkout)


def _edit(scenario: str, edits: Sequence[Edit], checkout: Path) -> None:
    for edit in edits:
        file = checkout / LEARNER.relative_to(ROOT) / edit.file
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if edit.find and edit.find not in text:
            raise ValueError(f"scenario {scenario}: {edit.file} does not hold {edit.find!r}")
        changed = text.replace(edit.find, edit.put, 1) if edit.find else text + edit.put
        file.write_text(changed, encoding="utf-8")
