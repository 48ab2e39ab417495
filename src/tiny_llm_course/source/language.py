"""What `Python` and `Marked` share: each is a language that a learner writes in, and `languages` maps files to them.

A text is a whole file, with newlines as line ends unless stated otherwise. A name is a target's. Both languages have
the methods of `Python`, whose docstrings say what they must do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

# Comments with these words enclose the learner's part of an otherwise given text.
YOUR_CODE = "--- your code"
ITS_END = "--- end"

# Merges (base, mine, new) line by line; None if there are conflicts.
MergeLines = Callable[[str, str, str], str | None]


class Reach(NamedTuple):
    """The code that something runs: its part of one file, and the other files that it runs code of."""

    code: list[str]  # normalized: without comments, docstrings and layout
    files: list[str]  # below the package; not all of them need be there


class Spans(ABC):
    """Where the code of targets is."""

    @abstractmethod
    def span(self, text: str, name: str) -> tuple[int, int] | None:
        """Return the first and the last line of a target's code, if there is any."""

    def region(self, text: str, name: str) -> str | None:
        """Return the lines of a target's code."""
        span = self.span(text, name)
        return "\n".join(text.split("\n")[span[0] - 1 : span[1]]) if span else None
