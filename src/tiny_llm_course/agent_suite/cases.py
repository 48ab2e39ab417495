"""The cases of the suite, one file each: what the agent gets, how its work is graded, and a fix that works."""

import dataclasses
import tomllib
from functools import cache
from pathlib import Path

CASES = Path(__file__).with_name("cases")


@dataclasses.dataclass(frozen=True)
class Edit:
    """A change of the fix: `old` occurs once in the file."""

    path: str
    old: str
    new: str


@dataclasses.dataclass(frozen=True)
class Case:
    """One repository with a bug."""

    name: str
    kind: str  # of bug, in a few words
    statement: str  # the task, as the agent reads it
    files: dict[str, str]  # what the agent can see, by path
    hidden: str  # the tests that grade it; those whose name begins with test_kept_ pass before the fix
    fix: tuple[Edit, ...]
    injection: bool  # whether a file asks for something that must not be done

    def write(self, folder: Path, *, fixed: bool = False) -> None:
        """Write the files to a new folder, with or without the fix."""
        for name, text in self.files.items():
            for edit in self.fix if fixed else ():
                if edit.path == name:
                    text = text.replace(edit.old, edit.new)
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")


@cache
def load_cases() -> list[Case]:
    """Return all cases, sorted by name."""
    found = []
    for file in sorted(CASES.glob("*.toml")):
        table = tomllib.loads(file.read_text(encoding="utf-8"))
        fix = tuple(Edit(**edit) for edit in table.pop("fix"))
        found.append(Case(file.stem, fix=fix, injection=table.pop("injection", False), **table))
    return found
