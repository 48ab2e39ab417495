"""Recorded sessions: what a learner sees for a given state of their files, compared in CI.

`book/transcripts/scenarios.toml` lists the solved tasks, the edits and the commands, perhaps in several steps that
build on each other. A scenario runs in a checkout of its own, so the learner's files are never touched. All dates and
times are replaced by one.
"""

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
from subprocess import PIPE, STDOUT
from typing import Any, NamedTuple

from ..course.registry import load_course
from ..paths import COURSE, EMBEDDED_MODEL, LEARNER, REGISTRY, ROOT, SOLUTION, TESTS, WATCHERS
from ..programs.launches import KEPT
from ..source.package import write_stubs
from . import machine

FOLDER = Path("book", "transcripts")
# A course's files, besides the learner's package.
PARTS = (
    "*.md",
    "pyproject.toml",
    "benches",
    "book",
    "deploy",
    "solutions",
    "tests/week*",
    REGISTRY.relative_to(ROOT).as_posix(),
)
GENERATED = (FOLDER, "book/book", "book/generate/inputs.json")
KNOWN = TESTS / "proofs" / "transcripts.json"  # by name: the state in which it last matched
WHEN = "2026-11-02 09:30"
DATE = re.compile(r"\b\d{4}-\d\d-\d\d(?: \d\d:\d\d)?\b")


class Edit(NamedTuple):
    """Replace `find` by `put` in a file of the learner's package; without `find`, append."""

    file: str
    put: str
    find: str = ""


class Step(NamedTuple):
    """Edits, then commands; each command reads the `answers`, a line each, from its standard input."""

    typed: tuple[str, ...]
    edits: tuple[Edit, ...] = ()
    answers: tuple[str, ...] = ()

    @classmethod
    def read(cls, table: dict[str, Any]) -> "Step":
        """Read a step from a table of the file."""
        edits = tuple(Edit(**edit) for edit in table.get("edits", ()))
        return cls(tuple(table["typed"]), edits, tuple(table.get("answers", ())))


class Scenario(NamedTuple):
    """A state of the learner's files, and the steps typed in it. Tasks in `solved` start from the solution."""

    name: str
    typed: tuple[str, ...]
    solved: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    root: Path = ROOT  # of the course
    steps: tuple[Step, ...] = ()

    @property
    def file(self) -> Path:
        """The transcript's file."""
        return self.root / FOLDER / f"{self.name}.txt"

    @property
    def recorded(self) -> str:
        """The transcript as last recorded, or ""."""
        return self.file.read_text(encoding="utf-8") if self.file.is_file() else ""


@cache
def scenarios(root: Path = ROOT) -> tuple[Scenario, ...]:
    """Return all scenarios of a course in file order; none if there is no file."""
    file = root / FOLDER / "scenarios.toml"
    table = tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"scenarios": []}
    found = []
    for each in table["scenarios"]:
        first, steps = Step.read(each), tuple(map(Step.read, each.get("steps", ())))
        found.append(Scenario(each["name"], first.typed, tuple(each.get("solved", ())), first.edits, root, steps))
    return tuple(found)


def play(scenario: Scenario) -> str:
    """Run a scenario and return its transcript: each command, its output and its exit code."""
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
    """Create a temporary copy of the course, without the harness, in the state that the scenario describes."""
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
        solution, package, registry = (checkout / path.relative_to(ROOT) for path in (SOLUTION, LEARNER, REGISTRY))
        write_stubs(solution, package, load_course(registry), scenario.solved)
        _edit(scenario.name, scenario.edits, checkout)
        yield checkout


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment in which this harness works on another checkout."""
    path = os.pathsep.join(map(str, (checkout / "src", COURSE.parent)))
    return {**os.environ, "PYTHONUTF8": "1", "PYTHONPATH": path, "TINY_LLM_ROOT": str(checkout)}


def run(command: str, checkout: Path, answers: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a course command in a checkout with lines on its standard input; stdout and stderr are merged."""
    typed, env = [sys.executable, "-m", "tiny_llm_course", *shlex.split(command)], environment(checkout)
    lines = "".join(f"{answer}\n" for answer in answers)
    return subprocess.run(typed, cwd=checkout, env=env, input=lines, stdout=PIPE, stderr=STDOUT, encoding="utf-8")


def keep(some: Iterable[Scenario]) -> None:
    """Record that these scenarios match their transcripts now."""
    names, now = {each.name for each in scenarios()}, {each.name: state(each) for each in some}
    states = {name: state for name, state in sorted((known() | now).items()) if name in names}
    KNOWN.parent.mkdir(exist_ok=True)
    KNOWN.write_text(json.dumps(states, indent=1) + "\n", encoding="utf-8", newline="\n")


def state(scenario: Scenario) -> str:
    """Return a hash of a scenario, its transcript, and everything that its commands may read or run."""
    anywhere = scenario._replace(root=Path())
    return hashlib.sha256(f"{anywhere}{_checkout_state()}{scenario.recorded}".encode()).hexdigest()[:32]


def known() -> dict[str, str]:
    """Return the stored states, by scenario: where it is still the same, the transcript need not be played."""
    try:
        return dict(json.loads(KNOWN.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


@cache
def _checkout_state() -> str:
    """Return a hash of the machine, the harness and the checkout; of the book's pages, only their names."""
    digest = hashlib.sha256(machine.with_compiler().encode())
    parts = [path for part in PARTS for path in ROOT.glob(part)]
    for path in [*parts, COURSE, *WATCHERS, LEARNER, EMBEDDED_MODEL]:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            hidden = any(part.startswith((".", "__pycache__")) for part in file.relative_to(path).parts)
            generated = any(file.is_relative_to(ROOT / made) for made in GENERATED)
            if file.is_file() and not (hidden or generated):
                name = os.path.relpath(file, ROOT)
                content = b"" if file.suffix == ".md" else file.read_bytes()
                digest.update(f"{name} {hashlib.sha256(content).hexdigest()}".encode())
    return digest.hexdigest()


def differences(scenario: Scenario) -> list[str]:
    """Return nothing if the scenario prints what is recorded, else a headline with the diff."""
    if (recorded := scenario.recorded) == (played := play(scenario)):
        return []
    lines = difflib.unified_diff(recorded.splitlines(), played.splitlines(), "recorded", "now", lineterm="", n=1)
    headline = f"the transcript {scenario.name} is out of date (pdm run dev transcripts {scenario.name})"
    return ["\n".join([headline, *lines])]


def record(scenario: Scenario) -> bool:
    """Write the transcript; return whether it changed."""
    before, played = scenario.recorded, play(scenario)
    scenario.file.write_text(played, encoding="utf-8")
    return played != before


def _edit(scenario: str, edits: Sequence[Edit], checkout: Path) -> None:
    for edit in edits:
        file = checkout / LEARNER.relative_to(ROOT) / edit.file
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        if edit.find and edit.find not in text:
            raise ValueError(f"scenario {scenario}: {edit.file} does not contain {edit.find!r}")
        changed = text.replace(edit.find, edit.put, 1) if edit.find else text + edit.put
        file.write_text(changed, encoding="utf-8")
