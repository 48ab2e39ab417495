"""What the harness asks of a language in which the learner writes; `languages` says which one a file is in.

A text is a whole file, with newlines as line ends unless something else is said. A name is a target's.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from ..course.nouns import Target, Task
from .merge.functions import Merged

# A comment with these words stands above the learner's part of what is given otherwise, and another one below it.
YOUR_CODE = "--- your code"
ITS_END = "--- end"

# Joins two changes of a text line by line: (base, mine, new) to the outcome, or None if there are conflicts.
MergeLines = Callable[[str, str, str], str | None]


class Reach(NamedTuple):
    """The code that something runs: what of it is in one file, and the files that this one has more of it from."""

    code: list[str]  # in a form that comments, docstrings and layout do not change
    files: list[str]  # below the package; not all of them need be there


class Language(ABC):
    """A language in which the learner writes."""

    fence: str  # what the book calls it

    @abstractmethod
    def stub(self, text: str, tasks: Mapping[str, Task], solved: Collection[str], needed: Collection[Target]) -> str:
        """The learner's file, made from the solution's.

        Args:
            text: the solution's file.
            tasks: all that have their targets in it, by the names of these.
            solved: names whose code stays.
            needed: what the learner's code will use of other files.

        Raises:
            ValueError: a target is missing, or the learner's parts are not marked as they must be.
        """

    @abstractmethod
    def holds_stub(self, text: str, task: Task) -> bool:
        """Whether the text still holds what the task's stub does: nobody has finished it, whatever it waits for."""

    @abstractmethod
    def reach(self, text: str, file: str, name: str | None, targets: Mapping[str, Collection[str]]) -> Reach:
        """The code of a target without other tasks' code; without a name, all of the file that is no task's.

        Args:
            text: the learner's file, whatever state it is in; bytes that are not UTF-8 are escaped by surrogates.
            file: its path below the package.
            name: the target's, or None.
            targets: the names of all targets, by their files.
        """

    @abstractmethod
    def span(self, text: str, name: str) -> tuple[int, int] | None:
        """The first and the last line of a target's code; None if there is none."""

    def line(self, text: str, name: str) -> int | None:
        """The line to send someone to who is to write the target."""
        span = self.span(text, name)
        return span[0] if span else None

    def region(self, text: str, name: str) -> str | None:
        """The lines of a target's code."""
        span = self.span(text, name)
        return "\n".join(text.split("\n")[span[0] - 1 : span[1]]) if span else None

    def fault(self, text: str) -> str:
        """Why a text cannot be run at all, as what follows the file's name (":3 is not Python: ..."), or ""."""
        return ""

    @abstractmethod
    def merge(self, base: str | None, mine: str, new: str, merge_lines: MergeLines) -> Merged:
        """Bring upstream's changes into the learner's file: what the learner wrote stays.

        Args:
            base: the file as the learner got it; None if it was not there.
            mine: the learner's file.
            new: upstream's file.
            merge_lines: for what is not taken apart.

        Raises:
            SyntaxError: the learner's or upstream's file cannot be taken apart, and has to be.
        """

    @abstractmethod
    def reset(self, text: str, stub: str, name: str) -> tuple[str, str]:
        """The learner's file, with whatever line ends, with the stub of one target put back.

        Args:
            text: the learner's file.
            stub: the whole file as it is generated.
            name: the target's.

        Returns:
            The text, and "" or the name of what was missing in it and has been put back.

        Raises:
            ValueError: it cannot be put there; the message completes "the file ...".
        """

    @abstractmethod
    def listing(self, text: str, name: str) -> str:
        """What the book prints of a target: its head, with what is said of it, and no code. A ValueError if none."""

    @abstractmethod
    def signatures(self, text: str, name: str) -> Mapping[str, object]:
        """What a stub and its solution have in common: of the target and, by their names, of its parts."""
