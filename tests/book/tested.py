"""For which content the browser tests have passed: `tested.json`, so that only what a changed page needs runs again.

The tests of a page belong to the page that they open first. While they run, the files of the built book that the
browser asks for are noted, and kept with a key: a hash of what these files hold and of the files of the tests, axe
among them. As long as the key is the same, tests of the page that have passed are skipped, which says so. Tests marked
`of_the_course` compare a page with what the course's code computes, or open no page of the book; they depend on the
whole course, and belong to one group. `--fresh-pages` runs all, as the nightly workflow does. Two pages are tested in
any case, which the commit draws, in case that a key is wrong.
"""

import contextlib
import datetime
import json
import random
import re
import subprocess
from collections.abc import Iterable, Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from tiny_llm_course.paths import ROOT

COURSE = "the course"  # the group of tests that depend on all of it
HERE = Path(__file__).parent
RECORD = HERE / "tested.json"
BUILT = re.compile(r"(^|/)(\.|__pycache__/)|^book/")  # the latter in `book`
CODE = ("benches", "book", "models", "solutions", "src")
SHARED = "every page"  # files that all pages load are listed once
GUARDS = 2  # pages that are tested although nothing has changed


class Content(NamedTuple):
    """What the tests depend on: the files of the built book by their hashes, their own files, the whole course."""

    book: dict[str, str]
    tests: str
    course: str

    @classmethod
    def of(cls, book: Path) -> "Content":
        """Hash everything."""
        own = {name: digest for name, digest in _hashes(HERE).items() if name != RECORD.name}
        code = {name: _hashes(ROOT / name) for name in CODE if name != "tests"}
        code |= {folder.name: _hashes(folder) for folder in (ROOT / "tests").glob("week*")}
        versions = {name: version(name) for name in ("mlx", "numpy", "playwright")}
        return cls(_hashes(book), _hash([versions["playwright"], own]), _hash([versions, own, code]))

    def key(self, group: str, loads: Iterable[str]) -> str:
        """Hash what the tests of a group depend on: the files that they load of the book, and those of the tests."""
        if group == COURSE:
            return self.course
        return _hash([self.tests, {name: self.book.get(name, "") for name in loads}])


def _hashes(folder: Path) -> dict[str, str]:
    """The hash of each file, by its path in the folder; not of what is built there."""
    files = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    return {name: sha256(file.read_bytes()).hexdigest() for name, file in files.items() if not BUILT.search(name)}


def _hash(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:20]


class Run(NamedTuple):
    """A test that has run."""

    group: str
    loads: list[str]  # files of the built book
    passed: bool


class Record:
    """What is kept of each group: when it was tested, its key, what it loads, and the tests that have passed."""

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, Any]] = {}
        # There may be none, or git has left the marks of a conflict.
        with contextlib.suppress(OSError, ValueError):
            self.groups = json.loads(RECORD.read_text(encoding="utf-8"))
        shared: Any = self.groups.pop(SHARED, [])
        for name, group in self.groups.items():
            group["loads"] = sorted([*shared, *group["loads"]]) if name != COURSE else []

    def valid(self, content: Content) -> dict[str, str]:
        """Name each test whose group is as it was when it passed, with the day of that."""
        found: dict[str, str] = {}
        for name, group in self.groups.items():
            if group["key"] == content.key(name, group["loads"]):
                found |= dict.fromkeys(group["tests"], group["tested"])
        return found

    def guards(self) -> set[str]:
        """Name the tests of the pages that are tested although nothing has changed; the commit draws them."""
        pages = sorted(self.groups.keys() - {COURSE})
        git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
        chosen = random.Random(git.stdout).sample(pages, min(GUARDS, len(pages)))
        return {test for name in chosen for test in self.groups[name]["tests"]}

    def update(self, ran: Mapping[str, Run], content: Content) -> None:
        """Keep which tests have passed; those that have not run stay, if nothing has changed for them."""
        valid = self.valid(content).keys() - ran.keys()
        passed: dict[str, dict[str, list[str]]] = {name: {} for name in self.groups}
        for test, run in ran.items():
            if run.passed:
                passed.setdefault(run.group, {})[test] = run.loads
        for name, new in passed.items():
            old = self.groups.get(name, {"tests": [], "loads": []})
            stays = [test for test in old["tests"] if test in valid]
            loads = sorted({*(old["loads"] if stays else ()), *(file for files in new.values() for file in files)})
            loads = [] if name == COURSE else loads
            group = {"key": content.key(name, loads), "loads": loads, "tests": sorted({*stays, *new})}
            same = group == {part: old.get(part) for part in group}
            self.groups[name] = {"tested": old["tested"] if same else datetime.date.today().isoformat(), **group}
        self.groups = {name: group for name, group in self.groups.items() if group["tests"]}

    def __str__(self) -> str:
        pages = [group for name, group in self.groups.items() if name != COURSE]
        shared = sorted(set.intersection(*(set(page["loads"]) for page in pages))) if pages else []
        lines = [f'"{SHARED}": {json.dumps(shared)}']
        for name, group in sorted(self.groups.items()):
            own = [file for file in group["loads"] if file not in shared] if name != COURSE else []
            lines.append(f"{json.dumps(name)}: {json.dumps(group | {'loads': own})}")
        return "{\n" + ",\n".join(lines) + "\n}\n"


def keep(ran: Mapping[str, Run], content: Content) -> None:
    """Write down which tests have passed, for this content."""
    record = Record()
    before = str(record)
    record.update(ran, content)
    if str(record) != before:
        RECORD.write_text(str(record), encoding="utf-8", newline="\n")
