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
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..course.nouns import Task
from ..course.registry import load_course
from ..course.requirements import REQUIREMENTS, compiler, missing
from ..paths import COURSE, ROOT, SOLUTION, TESTS
from .planted import Claims
from .proof import Proof, Proven
from .reached import files_of

FOLDER = TESTS / "proofs"
COMPUTING = ("mlx", "numpy", "pytest", "hypothesis", "regex", "nanobind", "starlette", "uvicorn", "pydantic")
INSTRUCTIONS = re.compile(r"\b__(?:AVX|ARM|FMA|SSE|F16C)\w*")  # sets of them, as a compiler's macros
COMPILED = (".cpp", ".h", ".metal")


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
    return every_machine_word() if compiled else _machine()


def every_machine_word() -> str:
    """Return what may change any result: the words of a machine that compiles kernels."""
    return f"{_machine()}{_processor()}"


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


@functools.cache
def _machine() -> str:
    python = ".".join(platform.python_version_tuple()[:2])
    words = [f"{platform.system()} {platform.machine()}", f"Python {python}"]
    words += [f"{name} {version(name)}" for name in COMPUTING]
    words += [f"no {word}" for word in missing(REQUIREMENTS)]
    return ", ".join(words)


@functools.cache
def _processor() -> str:
    """Return the compiler and, of the instruction sets that some kernel asks for, those that it finds here."""
    if not (command := compiler()):
        return ""
    native = "-march=native" if platform.machine() in ("x86_64", "AMD64") else "-mcpu=native"
    asked = subprocess.run([*command, "--version"], capture_output=True, text=True).stdout.splitlines()[:1]
    macros = subprocess.run([*command, native, "-dM", "-E", "-x", "c++", "-"], input="", capture_output=True, text=True)
    sources = (file for file in SOLUTION.rglob("*") if file.suffix in COMPILED and ".build" not in file.parts)
    wanted = {name for file in sources for name in INSTRUCTIONS.findall(file.read_text(encoding="utf-8"))}
    here = sorted(name.strip("_") for name in wanted & set(INSTRUCTIONS.findall(macros.stdout)))
    return "".join(f", {word}" for word in [*asked, *here])
