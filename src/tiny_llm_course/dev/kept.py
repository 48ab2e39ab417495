"""Proofs that are kept: a day is proven again when something has changed that its proof depends on.

That is the harness, the day's own files and registry entry, those of the days that it needs, the solution's and the
stubs' files that all these reach, the embedded model, and the versions of what computes. A proof with a problem is
never kept. They lie in `.tiny-llm/proofs`, which git does not know: a clean clone proves everything.
"""

import contextlib
import dataclasses
import hashlib
import json
import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

from ..course.nouns import Day
from ..course.places import day_files
from ..course.registry import load_course
from ..course.requirements import REQUIREMENTS, compiler, missing
from ..paths import COURSE, EMBEDDED_MODEL, LEARNER, REGISTRY, ROOT, SOLUTION, TESTS, WATCHERS
from ..source.code import Code
from .planted import Claims
from .proof import Proof

FOLDER = ROOT / ".tiny-llm" / "proofs"
COMPUTING = ("mlx", "numpy", "pytest", "hypothesis", "regex")

Proven = tuple[list[Proof], list[Claims]]


def look_up(day: Day) -> Proven | None:
    """The proofs and claims of a day's tasks, if they are kept and nothing has changed since."""
    try:
        kept = json.loads(_file(day).read_text(encoding="utf-8"))
        if kept["of"] != _state(day):
            return None
        return [Proof(**proof) for proof in kept["proofs"]], [Claims(**claims) for claims in kept["claims"]]
    except (OSError, ValueError, KeyError, TypeError):  # none, or one of another version of this file
        return None


def keep(day: Day, proven: Proven) -> None:
    """Keep them, if the day has no problem and there is room to write."""
    proofs, claims = proven
    if any(proof.problems for proof in proofs) or any(of.problems for of in claims):
        return
    kept = {
        "of": _state(day),
        "proofs": [*map(dataclasses.asdict, proofs)],
        "claims": [*map(dataclasses.asdict, claims)],
    }
    with contextlib.suppress(OSError):
        FOLDER.mkdir(parents=True, exist_ok=True)
        _file(day).write_text(json.dumps(kept), encoding="utf-8")


def _file(day: Day) -> Path:
    return FOLDER / f"{day.name}.json"


def _state(day: Day) -> str:
    """A hash of everything that the proof of a day depends on."""
    course = load_course()
    needed = {need for task in day.tasks for need in course.needs(task.id)}
    days = [each for each in course.days() if each == day or any(task.id in needed for task in each.tasks)]
    digest = hashlib.sha256(repr([days, platform.python_version(), platform.platform()]).encode())
    digest.update(repr([*map(version, COMPUTING), missing(REQUIREMENTS), compiler()]).encode())
    for file in sorted({*_harness(), *_of_days(days), *_files_below(EMBEDDED_MODEL)}):
        digest.update(f"{file.relative_to(ROOT) if file.is_relative_to(ROOT) else file.name}\0".encode())
        digest.update(file.read_bytes() if file.is_file() else b"\0")
    return digest.hexdigest()


def _harness() -> Iterator[Path]:
    folders = COURSE, *WATCHERS
    return (f for folder in folders for f in _files_below(folder) if not f.is_relative_to(REGISTRY))


def _of_days(days: Iterable[Day]) -> Iterator[Path]:
    tasks = [task for day in days for task in day.tasks]
    for package in (SOLUTION, LEARNER):
        yield from (package / file for file in Code(package).files(tasks))
    for day in days:
        yield from day_files(day)
        # What tests read beside themselves: recordings, vocabularies.
        yield from (file for file in _files_below(TESTS / f"week{day.week}") if file.suffix != ".py")


def _files_below(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
