"""For which content tests have passed: a `tested.json` beside them, so that only what a change concerns runs again.

Tests belong to groups. A group depends on parts: in `tests/book` a page's tests on the files of the built book that the
browser asks for, in `tests/course` a file's tests on all that the project holds. A group is kept with a key: a hash of
its parts and of what all groups depend on. While the key is the same, tests that have passed are skipped, and say so.
Some groups, drawn by the commit, run in any case: a key may be wrong. The nightly workflow runs all.
"""

import contextlib
import datetime
import json
import random
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
COURSE = "the course"  # a part: all of it, without the harness
BUILT = re.compile(r"(^|/)(\.|__pycache__/)|^book/book/|(^|/)tested\.json$|^tests/proofs/")
SHARED = "every group"  # parts of all groups are listed once
PROPERTY = "tested"  # of a test that has run: its folder, group, parts and unit


class Content(NamedTuple):
    """What tests depend on, as hashes: parts by their names, and what every test depends on."""

    parts: dict[str, str]
    always: str

    def key(self, parts: Iterable[str]) -> str:
        """Hash what a group with these parts depends on."""
        return hash_of([self.always, {name: self.parts.get(name, "") for name in sorted(parts)}])


def hashes(folder: Path, root: Path = ROOT, without: re.Pattern[bytes] | None = None) -> dict[str, str]:
    """The hash of each file below a folder, by its path from the root; not of what is built, proven or tested.

    What matches `without` does not count.
    """
    files = {file.relative_to(root).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    found = {name: file.read_bytes() for name, file in files.items() if not BUILT.search(name)}
    return {name: sha256(without.sub(b"", text) if without else text).hexdigest() for name, text in found.items()}


def hash_of(value: Any) -> str:
    """A hash of what JSON can hold."""
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:20]


class Run(NamedTuple):
    """What has run: a test, or all tests of a group as one."""

    group: str
    parts: list[str]
    passed: bool


class Record:
    """What is kept of each group: when it was tested, its key, its parts, and the names of what has passed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.groups: dict[str, dict[str, Any]] = {}
        # There may be none, or git has left the marks of a conflict.
        with contextlib.suppress(OSError, ValueError):
            self.groups = json.loads(file.read_text(encoding="utf-8"))
        shared: Any = self.groups.pop(SHARED, [])
        for name, group in self._apart():
            self.groups[name]["parts"] = sorted([*shared, *group["parts"]])

    def _apart(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The groups that may share parts."""
        return ((name, group) for name, group in self.groups.items() if name != COURSE)

    def valid(self, content: Content) -> dict[str, str]:
        """Name what has passed in groups that are as they were then, with the day of that."""
        found: dict[str, str] = {}
        for group in self.groups.values():
            if group["key"] == content.key(group["parts"]):
                found |= dict.fromkeys(group["passed"], group["tested"])
        return found

    def guards(self, number: int) -> set[str]:
        """Name what is tested although nothing has changed, of so many groups; the commit draws them."""
        names = sorted(name for name, _ in self._apart())
        git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
        chosen = random.Random(git.stdout).sample(names, min(number, len(names)))
        return {test for name in chosen for test in self.groups[name]["passed"]}

    def update(self, ran: Mapping[str, Run], content: Content) -> None:
        """Keep what has passed; what has not run stays, if nothing has changed for it."""
        valid = self.valid(content).keys() - ran.keys()
        passed: dict[str, dict[str, list[str]]] = {name: {} for name in self.groups}
        for test, run in ran.items():
            if run.passed:
                passed.setdefault(run.group, {})[test] = run.parts
        for name, new in passed.items():
            old = self.groups.get(name, {"passed": [], "parts": []})
            stays = [test for test in old["passed"] if test in valid]
            parts = sorted({*(old["parts"] if stays else ()), *(part for some in new.values() for part in some)})
            group = {"key": content.key(parts), "parts": parts, "passed": sorted({*stays, *new})}
            same = group == {part: old.get(part) for part in group}
            self.groups[name] = {"tested": old["tested"] if same else datetime.date.today().isoformat(), **group}
        self.groups = {name: group for name, group in self.groups.items() if group["passed"]}

    def __str__(self) -> str:
        shared = (
            set.intersection(*(set(group["parts"]) for _, group in self._apart())) if dict(self._apart()) else set()
        )
        lines = [f'"{SHARED}": {json.dumps(sorted(shared))}']
        for name, group in sorted(self.groups.items()):
            own = group["parts"] if name == COURSE else [part for part in group["parts"] if part not in shared]
            lines.append(f"{json.dumps(name)}: {json.dumps(group | {'parts': own})}")
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def keep(self, ran: Mapping[str, Run], content: Content) -> None:
        """Write down what has passed, for this content."""
        before = str(self)
        self.update(ran, content)
        if str(self) != before:
            self.file.write_text(str(self), encoding="utf-8", newline="\n")


class Recorder:
    """Skips what has passed for the same content, and keeps what passes, in whatever process."""

    def __init__(self, config: pytest.Config, folder: Path) -> None:
        self.config = config
        self.file = folder / "tested.json"
        self.content: Content | None = None  # pytest-xdist's processes send it
        self.ran: dict[str, dict[str, Run]] = {}  # by unit and test
        self.sizes: dict[str, int] = {}
        self.failed: set[str] = set()
        self.skipped: set[str] = set()

    def skip(self, units: Mapping[str, Sequence[pytest.Item]], content: Content, guards: int, again: str) -> None:
        """Skip the units that have passed for this content; `again` says how they run all the same."""
        record = Record(self.file)
        valid, drawn = record.valid(content), record.guards(guards)
        for unit in units.keys() & valid.keys() - drawn:
            day = datetime.date.fromisoformat(valid[unit])
            for item in units[unit]:
                item.add_marker(pytest.mark.skip(f"as tested on {day.day} {day:%B %Y} ({again})"))

    def note(self, item: pytest.Item, group: str, parts: Iterable[str], unit: str, size: int) -> None:
        """Say to which unit a test belongs, which has so many."""
        item.user_properties.append((PROPERTY, (self.file.parent.name, group, sorted(parts), unit, size)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            (self.failed if report.failed else self.skipped).add(report.nodeid)
        properties: dict[str, Any] = dict(report.user_properties)
        if report.when == "teardown" and properties.get(PROPERTY, ("",))[0] == self.file.parent.name:
            _, group, parts, unit, size = properties[PROPERTY]
            self.sizes[unit] = size
            self.ran.setdefault(unit, {})[report.nodeid] = Run(group, parts, report.nodeid not in self.failed)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        if str(self.file) in getattr(node, "workeroutput", {}):  # a worker that died has none
            self.content = Content(*node.workeroutput[str(self.file)])

    def pytest_sessionfinish(self) -> None:
        if self.content and hasattr(self.config, "workeroutput"):
            self.config.workeroutput[str(self.file)] = tuple(self.content)
        elif self.content and (units := {unit: self._whole(unit) for unit in self.ran}):
            Record(self.file).keep({unit: run for unit, run in units.items() if run}, self.content)

    def _whole(self, unit: str) -> Run | None:
        """A unit of which all tests have run; None if some have not, or all were skipped."""
        tests = self.ran[unit]
        if len(tests) < self.sizes[unit] or tests.keys() <= self.skipped:
            return None
        first = next(iter(tests.values()))
        return first._replace(passed=all(run.passed for run in tests.values()))
