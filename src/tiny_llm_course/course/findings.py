"""What a check found wrong, as data: the reporter prints it, the harness ranks it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

WIDTH = 160  # of a learner's message or line of code; more would push the verdict off the screen


class Kind(enum.IntEnum):
    """The kinds of failure, first things first: while the shape is wrong, nobody needs to hear about values."""

    NOT_STARTED = 0
    NOT_BUILT = 1
    NO_IMPORT = 2
    MEMORY = 3  # a kernel touches what is not its own
    STOPPED = 4
    FORBIDDEN = 5
    RAISED = 6
    TYPE = 7
    SHAPE = 8
    DTYPE = 9
    NAN = 10
    VALUES = 11
    INPUT_CHANGED = 12
    COSTS = 13  # a kernel moves, or waits, more than it needs to
    NO_ERROR = 14
    MISJUDGED = 15  # of an open task: the learner's check stops a right program, or lets a wrong one pass
    COURSE = 16  # the check itself is wrong


# What has been seen, by the kind of failure that it is told under.
SEEN = {
    Kind.MEMORY: "your kernel does what one does in which",
    Kind.RAISED: "your program stops as one does in which",
    Kind.COSTS: "your kernel does what one does in which",
    Kind.NO_ERROR: "your program does what one does in which",
    Kind.MISJUDGED: "your check lets through just what one does that",
}
OUTPUT = "your output equals what you get when"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One failed check.

    `headline` says what is wrong, `lines` show it, `case` names the inputs, `size` counts their elements, `frames` are
    the learner's own lines on the way to an exception, innermost last, `blocker` is the task to be written (or to be
    made to end) first, `place` is where the fault of a file is that cannot be imported or built, `indirect` says that
    what was expected came from the learner's own program (a property), not from an oracle, `check` is the test's name,
    `swept` that the case is one of a sweep, whose sizes are for machines to find and not for learners to look at.
    """

    kind: Kind
    headline: str
    lines: tuple[str, ...] = ()
    case: str = ""
    size: int = 0
    frames: tuple[str, ...] = ()
    blocker: str = ""
    place: str = ""
    indirect: bool = False
    check: str = ""
    swept: bool = False

    def text(self) -> str:
        """The finding as an editor's test runner shows it."""
        return "\n".join(part for part in [self.headline, *self.lines, self.case and f"case: {self.case}"] if part)

    @property
    def file(self) -> str:
        """The file that cannot be imported or built."""
        return self.place.partition(":")[0]

    @property
    def barred(self) -> str:
        """The same in words."""
        return f"{self.file} cannot be {'built' if self.kind == Kind.NOT_BUILT else 'imported'}"

    @property
    def unexpected(self) -> bool:
        """Whether it comes from an exception, whose traceback somebody may want to see."""
        return self.kind == Kind.RAISED

    @property
    def narrow(self) -> bool:
        """Whether the case computes in float16 or bfloat16: a case's words begin with its dtype."""
        return self.case.startswith(("float16", "bfloat16")) and self.kind < Kind.NO_ERROR

    def rank(self) -> tuple[bool, bool, bool, int, bool, int, int]:
        """Smaller is told first: an oracle's before a property's, then float32, then by kind, then the smallest case.

        That is an example before what a sweep draws, then the one of fewest elements, and of those the one of fewest
        words. The course's own faults come last.
        """
        return (self.kind == Kind.COURSE, self.indirect, self.narrow, self.kind, self.swept, self.size, len(self.case))

    def to_json(self) -> dict[str, Any]:
        """For the pipe between the child process and the harness."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Finding:
        """The inverse of `to_json`."""
        parts: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in data.items()}
        return Finding(**{**parts, "kind": Kind(data["kind"])})


class CheckFailed(AssertionError):
    """Raised by the checks of the test kit; carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text())
        self.finding = finding


def message_of(error: BaseException) -> str:
    """What an exception says; the learner's own may raise another one instead."""
    try:
        return str(error)
    except Exception:
        return "(its message cannot be printed)"


def shortened(line: str) -> str:
    """A line that fits the screen and does nothing to the terminal."""
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def few(frames: Sequence[str]) -> list[str]:
    """The outermost and innermost lines of a long way to an error."""
    return list(frames) if len(frames) <= 4 else [*frames[:2], "...", *frames[-2:]]


@dataclasses.dataclass(frozen=True)
class Claim:
    """That a program is as wrong as a known one, which has one mistake, or two at once.

    Each mistake has a fact, a question and a name. `here` says that no more than this case is known to be alike.
    """

    facts: list[str]
    questions: list[str]
    here: bool = False
    names: list[str] = dataclasses.field(default_factory=list)

    def said(self, kind: Kind) -> str:
        """The facts, under a failure of a kind."""
        seen = SEEN.get(kind, OUTPUT)
        said = f"{seen} {', and '.join(self.facts)}."
        if self.here:
            return f"In this case, {said} In others there is something else."
        return f"Two mistakes at once: {said}" if len(self.facts) > 1 else f"{said[0].upper()}{said[1:]}"
