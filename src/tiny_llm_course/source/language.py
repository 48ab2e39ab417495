"""What the harness asks of a language that a learner writes in; `languages` maps files to languages.

A text is a whole file, with newlines as line ends unless stated otherwise. A name is a target's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ..course.entities import Target, Task
from .merge.functions import Merged

# Comments with these words enclose the learner's part of an otherwise given text.
YOUR_CODE = "--- your code"
ITS_END = "--- end"

# Merges (base, mine, new) line by line; None if there are conflicts.
MergeLines = Callable[[str, str, str], str | None]


class Reach(NamedTuple):
    """The code that something runs: its part of one file, and the other files that it runs code of."""

    code: list[str]  # normalized: without comments, docstrings and layout
    files: list[str]  # below the package; not all of them need be there


class Language(ABC):
    """A language that the learner writes in."""

    fence: str  # what the book calls it

    @abstractmethod
    def stub(self, text: str, tasks: Mapping[str, Task], solved: Collection[str], needed: Collection[Target]) -> str:
        """Turn the solution's file into the learner's. Raise ValueError if a target is missing or badly marked.

        `tasks` are the file's, by target name; code of `solved` names stays, and so do imports of `needed` targets.
        """

    @abstractmethod
    def holds_stub(self, text: str, task: Task) -> bool:
        """Return whether the task's stub statement is still in the text."""

    @abstractmethod
    def reach(self, text: str, file: str, name: str | None, targets: Mapping[str, Collection[str]]) -> Reach:
        """Return the code of a target without other tasks' code; for the name None, all code that is no task's.

        `file` is the path below the package; `targets` has the names of all targets by file. Invalid UTF-8 is escaped.
        """

    @abstractmethod
    def span(self, text: str, name: str) -> tuple[int, int] | None:
        """Return the first and the last line of a target's code, if there is any."""

    def line(self, text: str, name: str) -> int | None:
        """Return the line where a learner should write the target."""
        span = self.span(text, name)
        return span[0] if span else None

    def region(self, text: str, name: str) -> str | None:
        """Return the lines of a target's code."""
        span = self.span(text, name)
        return "\n".join(text.split("\n")[span[0] - 1 : span[1]]) if span else None

    def fault(self, text: str) -> str:
        """Return why a text cannot be run, as a suffix of its file name (":3 is not Python: ..."), or ""."""
        return ""

    @abstractmethod
    def merge(self, base: str | None, mine: str, new: str, merge_lines: MergeLines) -> Merged:
        """Merge upstream's changes into the learner's file; what the learner wrote stays.

        `base` is the file that the learner started from, if any; `merge_lines` merges text that is not parsed. Raise
        SyntaxError if a file must be parsed and cannot be.
        """

    @abstractmethod
    def reset(self, text: str, stub: str, name: str) -> tuple[str, str]:
        """Restore one target's stub in the learner's file, whatever its line ends.

        Return the text, and the name of a missing definition that was restored, or "". Raise ValueError if it cannot be
        done; the message completes "the file ...".
        """

    @abstractmethod
    def listing(self, text: str, name: str) -> str:
        """Return what the book prints of a target: its head and docstring. Raise ValueError if there is none."""

    @abstractmethod
    def signatures(self, text: str, name: str) -> Mapping[str, object]:
        """Return what a stub and its solution share, by name: the target and its parts."""
