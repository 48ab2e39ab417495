"""Stored proofs: a task is proven again only when something that its proof reads has changed.

`tests/proofs/weekN.json` is committed, so a clean clone proves only what changed. A proof is valid where its key and
its machine match. The key hashes all content that the proof reads. The machine lists what else may change a result:
operating system, processor architecture, Python's minor version and the numerical packages; for kernels also the
compiler and the instruction sets that their sources test for. A task with a problem is never stored.
"""

import dataclasses
import functools
import hashlib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..course.entities import Task
from ..course.registry import load_course
from ..paths import COURSE, ROOT, SOLUTION, TESTS
from .fault_injection import DiagnosisScore
from .machine import COMPILED, in_words, with_compiler
from .proof import Proof, Proven
from .proof_inputs import files_of

FOLDER = TESTS / "proofs"


class Kept(NamedTuple):
    """A task's proof and the date it was made, as 2026-11-23."""

    proven: Proven
    on: str


def look_up(tasks: Sequence[Task]) -> dict[Task, Kept]:
    """Return the stored proofs of those tasks whose key and machine are unchanged."""
    found = {}
    for task in tasks:
        for entry in _entries(task.week).get(task.id, ()):
            if (entry["key"], entry["machine"]) == (key(task), machine(task)):
                proven = Proven(Proof(task.id, **entry["proof"]), DiagnosisScore(task.id, **entry["claims"]))
                found[task] = Kept(proven, entry["on"])
    return found


def keep(proven: Mapping[Task, Proven], on: str) -> None:
    """Store the proofs without problems. Those of other machines stay while their key is the current one."""
    sound = {task: each for task, each in proven.items() if not each.problems}
    for week in sorted({task.week for task in sound}):
        entries = _entries(week)
        for task in (task for task in sound if task.week == week):
            others = [each for each in entries.get(task.id, ()) if each["machine"] != machine(task)]
            entry = {"key": key(task), "machine": machine(task), "on": on, **_counts(sound[task])}
            entries[task.id] = [*(each for each in others if each["key"] == entry["key"]), entry]
        _write(week, entries)


def key(task: Task) -> str:
    """Return a hash of all content that the proof of a task reads."""
    course = load_course()
    needs = [course.task(need) for need in course.needs(task.id)]
    entries = [_without_prose(each) for each in [task, *course.day_of(task).tasks, *needs]]
    weeks = [course.week(number) for number in sorted({each.week for each in [task, *needs]})]
    digest = hashlib.sha256(repr([*entries, *((w.build, w.calls, w.launches) for w in weeks)]).encode())
    for file in sorted(files_of(task)):
        # Relative to the checkout, or to the harness if that is installed elsewhere.
        name = file.relative_to(ROOT if file.is_relative_to(ROOT) else COURSE.parent).as_posix()
        digest.update(f"{name}\0{_content(file)}\0".encode())
    return digest.hexdigest()[:32]


def machine(task: Task) -> str:
    """Describe what, besides the key's content, may change the result of a task's proof."""
    compiled = any(file.suffix in COMPILED and file.is_relative_to(SOLUTION) for file in files_of(task))
    return with_compiler() if compiled else in_words()


def _without_prose(task: Task) -> Task:
    """Return a registry entry without the fields that no check reads."""
    return dataclasses.replace(task, hints=(), minutes=0, difficulty=0, makes=(), optional=False)


def _counts(proven: Proven) -> dict[str, dict[str, Any]]:
    """Return the fields of a proof that differ from an empty one's."""
    found = {}
    for name, one in (("proof", proven.proof), ("claims", proven.claims)):
        defaults = dataclasses.asdict(type(one)(one.task))
        found[name] = {field: n for field, n in dataclasses.asdict(one).items() if n != defaults[field]}
    return found


def path(week: int) -> Path:
    """Return the file of a week's proofs."""
    return FOLDER / f"week{week}.json"


def _entries(week: int) -> dict[str, list[dict[str, Any]]]:
    """Return a week's stored entries by task; none if there is no file or it cannot be read."""
    try:
        return dict(json.loads(path(week).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _write(week: int, entries: Mapping[str, list[dict[str, Any]]]) -> None:
    """Write a week's file, one line per proof, so that a diff shows which tasks were proven again."""
    tasks = []
    for task in (task.id for task in load_course().tasks() if task.id in entries):
        lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries[task])
        tasks.append(f"{json.dumps(task)}: [\n{lines}\n]")
    FOLDER.mkdir(exist_ok=True)
    path(week).write_text("{\n" + ",\n".join(tasks) + "\n}\n", encoding="utf-8", newline="\n")


@functools.cache
def _content(file: Path) -> str:
    content = file.read_bytes()
    if file == ROOT / "pyproject.toml":
        content = _what_a_proof_reads(content.decode())
    return hashlib.sha256(content).hexdigest()


def _what_a_proof_reads(pyproject: str) -> bytes:
    """Return pytest's settings and the dependencies, so that commands, linters and prose invalidate no proof."""
    project, tools = (tomllib.loads(pyproject).get(name, {}) for name in ("project", "tool"))
    read = [*map(project.get, ("requires-python", "dependencies")), *map(tools.get, ("pytest", "hypothesis"))]
    return json.dumps(read, sort_keys=True).encode()
