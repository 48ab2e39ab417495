"""Proofs that are kept: a task is proven again when something changes that its proof reads.

One file a week, `tests/proofs/weekN.json`, is committed: a clean clone proves only what has changed. A proof has two
names. Its key is a hash of the content that the proof reads. Its machine is what else may change a result: the
operating system, the processor's architecture, Python's minor version and the packages that compute; for tasks with
kernels also the compiler and those instruction sets that the kernels' sources ask for. A proof counts only where both
are the same. A task with a problem is never kept.
"""

import dataclasses
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..course.nouns import Task
from ..course.registry import load_course
from ..paths import COURSE, ROOT, SOLUTION, TESTS
from .machine import COMPILED, in_words, with_compiler
from .planted import Claims
from .proof import Proof, Proven
from .reached import files_of

FOLDER = TESTS / "proofs"


@dataclasses.dataclass(frozen=True)
class Kept:
    """A task's proof, and the day on which it was made, as 2026-11-23."""

    proven: Proven
    on: str


def look_up(tasks: Sequence[Task]) -> dict[Task, Kept]:
    """Return the kept proofs of those tasks for which nothing has changed since, on a machine of this kind."""
    found = {}
    for task in tasks:
        for entry in _entries(task.week).get(task.id, ()):
            if (entry["key"], entry["machine"]) == (key(task), machine(task)):
                proven = Proven(Proof(task.id, **entry["proof"]), Claims(task.id, **entry["claims"]))
                found[task] = Kept(proven, entry["on"])
    return found


def keep(proven: Mapping[Task, Proven], on: str) -> None:
    """Write the proofs without a problem; those of other machines stay as long as their key is the current one."""
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
        digest.update(f"{_name(file)}\0{_content(file)}\0".encode())
    return digest.hexdigest()[:32]


def machine(task: Task) -> str:
    """Return in words what beside the key's content may change a result of a task's proof."""
    compiled = any(file.suffix in COMPILED and file.is_relative_to(SOLUTION) for file in files_of(task))
    return with_compiler() if compiled else in_words()


def _without_prose(task: Task) -> Task:
    """Return a registry entry without what no check reads."""
    return dataclasses.replace(task, hints=(), minutes=0, difficulty=0, makes=(), optional=False)


def _counts(proven: Proven) -> dict[str, dict[str, Any]]:
    """Return the numbers of a proof that are not those of an empty one."""
    found = {}
    for name, one in (("proof", proven.proof), ("claims", proven.claims)):
        defaults = dataclasses.asdict(type(one)(one.task))
        found[name] = {field: n for field, n in dataclasses.asdict(one).items() if n != defaults[field]}
    return found


def path(week: int) -> Path:
    """Return the file of a week's proofs."""
    return FOLDER / f"week{week}.json"


def _entries(week: int) -> dict[str, list[dict[str, Any]]]:
    """Return the kept entries of a week by task; none if there is no file, or if it cannot be read."""
    try:
        entries: dict[str, list[dict[str, Any]]] = json.loads(path(week).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return entries


def _write(week: int, entries: Mapping[str, list[dict[str, Any]]]) -> None:
    """Write a week's file: a line for each proof, so that a difference shows which tasks were proven again."""
    order = [task.id for task in load_course().tasks() if task.id in entries]
    tasks = []
    for task in order:
        lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries[task])
        tasks.append(f"{json.dumps(task)}: [\n{lines}\n]")
    FOLDER.mkdir(exist_ok=True)
    path(week).write_text("{\n" + ",\n".join(tasks) + "\n}\n", encoding="utf-8", newline="\n")


def _name(file: Path) -> str:
    """Return a file's path in the checkout, or beside the harness where that is installed elsewhere."""
    return file.relative_to(ROOT if file.is_relative_to(ROOT) else COURSE.parent).as_posix()


@functools.cache
def _content(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
