"""Which files of `book/src/generated` are current: each is made again only when an input of it has changed.

`book/generate/inputs.json` has, for each generated file, the files that were opened while it was made, and a key: a
hash of what these hold, of the text that came of them, and of the versions of what computes. While the key is the same
the text is. The same inputs must give the same text on every machine, so no machine is in the key; the nightly
`dev check --fresh` makes all files again, on every operating system.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from typing import Any, NamedTuple

from ...course.nouns import Day
from ...course.places import name_of
from ...course.registry import load_course
from ...course.requirements import missing
from ...paths import BOOK, COURSE, REGISTRY, ROOT, WATCHERS
from .listings import names_of_files
from .parts import FOLDER, parts_in, present_text

KEYS = BOOK / "generate" / "inputs.json"
EVERY = "every file"  # the inputs that all generated files have are listed once
COMPUTING = ("mlx", "numpy", "regex")


class Made(NamedTuple):
    """The text that a generated file should have, "" if there should be none, and the files that it is made of."""

    text: str
    inputs: list[str]


def names_for(days: Collection[Day]) -> list[str]:
    """Name the generated files that these days and their weeks have, and that of the course; of all days, all."""
    weeks = {day.week for day in days}
    return [*(day.name for day in days), *map(str, sorted(weeks)), "course"]


def stale(names: Iterable[str]) -> list[str]:
    """Name the generated files of which an input, or the file itself, has changed since it was made."""
    kept, digest = _kept(), cache(_digest)
    return [name for name in names if name not in kept or kept[name]["key"] != _key(name, kept[name]["inputs"], digest)]


def refresh(fresh: bool = False) -> dict[str, bool]:
    """Make all files that are stale (all, if `fresh`), write them and their keys, and remove what is not generated.

    Returns the names of the files that were made or removed, each with whether that has changed it.

    Raises:
        OSError, ValueError: a file cannot be made. Then nothing is changed.
    """
    names = names_of_files(load_course())
    made = _make(names if fresh else stale(names))
    changed = {}
    for name, (text, _) in made.items():
        changed[name] = text != present_text(name)
        if text and changed[name]:
            FOLDER.mkdir(parents=True, exist_ok=True)
            (FOLDER / f"{name}.md").write_text(text, encoding="utf-8", newline="\n")
    for name in [*_left_over(names), *(name for name, (text, _) in made.items() if changed[name] and not text)]:
        (FOLDER / f"{name}.md").unlink()
        changed[name] = True
    _keep(made)
    return changed


def differences(names: Collection[str] | None = None, fresh: bool = False) -> list[str]:
    """Write one line for each part, of all generated files or of some, that is not what would be generated.

    The keys of files that turn out to be current are kept.
    """
    every = names_of_files(load_course())
    names = every if names is None else names
    made = _make(names if fresh else stale(names))
    found = []
    for name, (text, _) in made.items():
        found += _faults(name, text, present_text(name))
    if set(names) == set(every):
        found += [line for name in _left_over(every) for line in _faults(name, "", present_text(name))]
    _keep({name: one for name, one in made.items() if one.text == present_text(name)})
    return found


def _faults(name: str, wanted: str, there: str) -> list[str]:
    file = name_of(FOLDER / f"{name}.md")
    if wanted == there:
        return []
    ours, theirs = parts_in(wanted), parts_in(there)
    apart = [anchor for anchor in ours | theirs if ours.get(anchor) != theirs.get(anchor)]
    if not wanted or not there or not apart:  # without `apart`, what differs is none of its parts
        return [f"{file} {_fault(wanted, there)} (pdm run dev book)"]
    return [f"{file}:{a} {_fault(ours.get(a, ''), theirs.get(a, ''))} (pdm run dev book)" for a in apart]


def _fault(wanted: str, there: str) -> str:
    return "is not generated any more" if not wanted else "is out of date" if there else "is missing"


def _left_over(names: Collection[str]) -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("*.md") if file.stem not in names)


def _make(names: Collection[str]) -> dict[str, Made]:
    """Make files, each in a process of its own."""

    def make(name: str) -> Made:
        command = [sys.executable, "-P", "-m", f"{__package__}.making", name]
        found = json.loads(subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
        if "error" in found:
            raise ValueError(found["error"])
        return Made(**found)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(names, pool.map(make, names), strict=True))


# The keys


def _kept() -> dict[str, dict[str, Any]]:
    """The key of each generated file, and all of its inputs."""
    try:
        kept: dict[str, Any] = json.loads(KEYS.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # there are none, or git has left the marks of a conflict
        return {}
    shared = kept.pop(EVERY)
    return {name: {"key": of["key"], "inputs": sorted([*shared, *of["inputs"]])} for name, of in kept.items()}


def _keep(made: Mapping[str, Made]) -> None:
    names, kept, digest = names_of_files(load_course()), _kept(), cache(_digest)
    for name, (_, inputs) in made.items():
        if _is_whole(name):
            kept[name] = {"key": _key(name, inputs, digest), "inputs": inputs}
    kept = {name: kept[name] for name in names if name in kept}
    shared = set.intersection(*(set(of["inputs"]) for of in kept.values())) if kept else set()
    lines = [f'"{EVERY}": {json.dumps(sorted(shared))}']
    for name, of in kept.items():
        own = {"key": of["key"], "inputs": sorted({*of["inputs"]} - shared)}
        lines.append(f'"{name}": {json.dumps(own)}')
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    with contextlib.suppress(OSError):  # a checkout that cannot be written is checked all the same
        if not KEYS.exists() or KEYS.read_text(encoding="utf-8") != text:
            KEYS.write_text(text, encoding="utf-8", newline="\n")


def _is_whole(name: str) -> bool:
    """Whether this machine has all that the file needs: where it has not, what it cannot count stays as it is."""
    days = [day for day in load_course().days() if day.name == name]
    return not any(missing(task.requires) for day in days if day.is_open for task in day.tasks)


def _key(name: str, inputs: Iterable[str], digest: Any) -> str:
    parts = [*(f"{package} {version(package)}" for package in COMPUTING), present_text(name)]
    parts += [f"{file} {digest(file)}" for file in inputs]
    return sha256("\n".join(parts).encode()).hexdigest()[:20]


def _digest(name: str) -> str:
    """What an input holds: of a folder, the names in it; of what is not there, nothing."""
    harness = COURSE.parents[1] / name  # which is the one that runs, whatever other checkout it works on
    own = any(harness.is_relative_to(folder) for folder in (COURSE, *WATCHERS))
    path = harness if own and not (ROOT / name).is_relative_to(REGISTRY) else ROOT / name
    if path.is_dir():
        return sha256(repr(sorted(p.name for p in path.iterdir() if p.name != "__pycache__")).encode()).hexdigest()
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
