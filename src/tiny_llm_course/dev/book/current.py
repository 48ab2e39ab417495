"""Which files of `book/src/generated` are current: each is regenerated only when one of its inputs has changed.

`book/generate/inputs.json` holds, for each file, its inputs (the files that generating it opened) and a key: a hash of
their content, the text, and package versions. The text must be the same on every machine, so the key names none; the
nightly `dev check --fresh` regenerates everything on every operating system.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import Any, NamedTuple

from ...course.entities import Day
from ...course.file_paths import name_of
from ...course.registry import load_course
from ...course.requirements import missing
from ...paths import BOOK, COURSE, REGISTRY, ROOT, WATCHERS
from .listings import names_of_files
from .parts import FOLDER, parts_in, present_text

KEYS = BOOK / "generate" / "inputs.json"
EVERY = "every file"  # inputs shared by all generated files are listed once
COMPUTING = ("mlx", "numpy", "regex")


class Made(NamedTuple):
    """A generated file's text, "" if it should not exist, and its inputs."""

    text: str
    inputs: list[str]


def names_for(days: Collection[Day]) -> list[str]:
    """List the generated files of these days, of their weeks, and of the course."""
    weeks = {day.week for day in days}
    return [*(day.name for day in days), *map(str, sorted(weeks)), "course"]


def stale(names: Iterable[str]) -> list[str]:
    """Return the generated files that have changed, or an input of which has."""
    kept, digest = _kept(), cache(_digest)
    return [name for name in names if name not in kept or kept[name]["key"] != _key(name, kept[name]["inputs"], digest)]


def refresh(names: Collection[str] | None = None, fresh: bool = False) -> dict[str, bool]:
    """Regenerate the stale files of all or some; return whether each has changed. An error leaves all as they are."""
    every = names_of_files(load_course())
    names = every if names is None else names
    made = _make(names if fresh else stale(names))
    changed = {}
    for name, (text, _) in made.items():
        changed[name] = text != present_text(name)
        if text and changed[name]:
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / f"{name}.md").write_text(text, encoding="utf-8", newline="\n")
    for name in [*_left_over(every), *(name for name, (text, _) in made.items() if changed[name] and not text)]:
        (FOLDER / f"{name}.md").unlink()
        changed[name] = True
    _keep(made)
    return changed


def differences(names: Collection[str] | None = None, fresh: bool = False) -> list[str]:
    """Return a line for each part, of all files or some, that is out of date; store the keys of current files."""
    every = names_of_files(load_course())
    names = every if names is None else names
    made = _make(names if fresh else stale(names))
    wanted = {name: text for name, (text, _) in made.items()}
    wanted |= dict.fromkeys(_left_over(every) if set(names) == set(every) else (), "")
    found = [line for name, text in wanted.items() for line in _faults(name, text, present_text(name))]
    _keep({name: one for name, one in made.items() if one.text == present_text(name)})
    return found


def _faults(name: str, wanted: str, there: str) -> Iterator[str]:
    file, ours, theirs = name_of(FOLDER / f"{name}.md"), parts_in(wanted), parts_in(there)
    apart = {f"{file}:{a}": (ours.get(a, ""), theirs.get(a, "")) for a in ours | theirs}
    if not wanted or not there or ours == theirs:  # what differs is all of it, or none of its parts
        apart = {file: (wanted, there)}
    for place, (mine, other) in apart.items():
        if mine != other:
            fault = "is no longer generated" if not mine else "is out of date" if other else "is missing"
            yield f"{place} {fault} (pdm run dev book)"


def _left_over(names: Collection[str]) -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("*.md") if file.stem not in names)


def _make(names: Collection[str]) -> dict[str, Made]:
    """Generate files, each in a process of its own."""

    def make(name: str) -> Made:
        command = [sys.executable, "-P", "-m", f"{__package__}.generate_one", name]
        found = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
        if "error" in found:
            raise ValueError(found["error"])
        return Made(**found)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(names, pool.map(make, names), strict=True))


# The keys


def _kept() -> dict[str, dict[str, Any]]:
    """Return the key and all inputs of each generated file."""
    try:
        kept: dict[str, Any] = json.loads(KEYS.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # missing, or with conflict markers
        return {}
    shared = kept.pop(EVERY)
    return {name: {"key": of["key"], "inputs": sorted([*shared, *of["inputs"]])} for name, of in kept.items()}


def _keep(made: Mapping[str, Made]) -> None:
    names, kept, digest = names_of_files(load_course()), _kept(), cache(_digest)
    # This machine must be able to generate the whole file: what it cannot count stays as it was.
    open_days = [day for day in load_course().days() if day.is_open]
    partial = {day.name for day in open_days if any(missing(task.requires) for task in day.tasks)}
    for name, (_, inputs) in made.items():
        if name not in partial:
            kept[name] = {"key": _key(name, inputs, digest), "inputs": inputs}
    kept = {name: kept[name] for name in names if name in kept}
    shared = set.intersection(*(set(of["inputs"]) for of in kept.values())) if kept else set()
    lines = [f'"{EVERY}": {json.dumps(sorted(shared))}']
    for name, of in kept.items():
        lines.append(f'"{name}": {json.dumps({"key": of["key"], "inputs": sorted({*of["inputs"]} - shared)})}')
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    with contextlib.suppress(OSError):  # a read-only checkout can still be checked
        if not KEYS.exists() or KEYS.read_text(encoding="utf-8") != text:
            KEYS.write_text(text, encoding="utf-8", newline="\n")


def _key(name: str, inputs: Iterable[str], digest: Any) -> str:
    parts = [*(f"{package} {version(package)}" for package in COMPUTING), present_text(name)]
    parts += [f"{file} {digest(file)}" for file in inputs]
    return sha256("\n".join(parts).encode()).hexdigest()[:20]


def _digest(name: str) -> str:
    """Hash an input: a folder's listing, a file's content, nothing for a missing one."""
    harness = COURSE.parents[1] / name  # the running one, whatever checkout it works on
    own = any(harness.is_relative_to(folder) for folder in (COURSE, *WATCHERS))
    path = harness if own and not (ROOT / name).is_relative_to(REGISTRY) else ROOT / name
    if path.is_dir():
        return sha256(repr(sorted(p.name for p in path.iterdir() if p.name != "__pycache__")).encode()).hexdigest()
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
