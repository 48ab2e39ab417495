"""What a check found wrong, as data: the reporter prints it, the harness ranks it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

WIDTH = 160  # of a learner's message or line of code, so that the verdict stays on the screen


class Kind(enum.IntEnum):
    """The kinds of failure, most basic first: while the shape is wrong, values do not matter."""

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
    MISJUDGED = 15  # of an open task: the learner's check rejects a correct program or accepts a wrong one
    COURSE = 16  # the check itself is wrong


# How a claim begins, by the kind of failure under which it is reported.
SEEN = {
    Kind.MEMORY: "your kernel behaves like one in which",
    Kind.RAISED: "your program fails like one in which",
    Kind.COSTS: "your kernel behaves like one in which",
    Kind.NO_ERROR: "your program behaves like one in which",
    Kind.MISJUDGED: "your check accepts exactly the programs accepted by one that",
}
OUTPUT = "your output equals what you get when"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One failed check."""

    kind: Kind
    headline: str  # what is wrong
    lines: tuple[str, ...] = ()  # the evidence
    case: str = ""  # the inputs in words
    size: int = 0  # of the inputs, in elements
    frames: tuple[str, ...] = ()  # the learner's own lines in the traceback, innermost last
    blocker: str = ""  # the task to be written, or made to terminate, first
    place: str = ""  # of the fault in a file that cannot be imported or built
    indirect: bool = False  # the expected value came from the learner's program (a property), not from an oracle
    check: str = ""  # the test's name
    named: str = ""  # the test's name in words, if they say what it is about
    about: str = ""  # what it checks, by its docstring
    swept: bool = False  # the case is one of a sweep, whose sizes are not chosen for readability

    def text(self) -> str:
        """Return the finding as an editor's test runner shows it."""
        return "\n".join(part for part in [self.headline, *self.lines, self.case and f"case: {self.case}"] if part)

    @property
    def file(self) -> str:
        """The file that cannot be imported or built."""
        return self.place.partition(":")[0]

    @property
    def barred(self) -> str:
        """Such as `src/tiny_llm/basics.py cannot be imported`."""
        return f"{self.file} cannot be {'built' if self.kind == Kind.NOT_BUILT else 'imported'}"

    def rank(self) -> tuple[Any, ...]:
        """Return a sort key: oracles before properties, float32, by kind, examples before sweeps, smallest first."""
        narrow = self.case.startswith(("float16", "bfloat16")) and self.kind < Kind.NO_ERROR  # by the case's dtype
        bare = not self.case  # a learner could not look at it
        return (self.kind == Kind.COURSE, self.indirect, narrow, self.kind, self.swept, bare, self.size, len(self.case))

    def to_json(self) -> dict[str, Any]:
        """Convert it for the pipe between the child process and the harness."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Finding:
        """Invert `to_json`."""
        parts: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in data.items()}
        return Finding(**{**parts, "kind": Kind(data["kind"])})


class CheckFailed(AssertionError):
    """Raised by the checks of the test kit; carries the finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.text())
        self.finding = finding


def message_of(error: BaseException) -> str:
    """Return an exception's message; the learner's own `__str__` may raise."""
    try:
        return str(error)
    except Exception:
        return "(its message cannot be printed)"


def shortened(line: str) -> str:
    """Return a line that fits the screen, without control characters."""
    line = "".join(c if c.isprintable() else "?" for c in line)
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def few(frames: Sequence[str]) -> list[str]:
    """Return the outermost and innermost lines of a long traceback."""
    return list(frames) if len(frames) <= 4 else [*frames[:2], "...", *frames[-2:]]


@dataclasses.dataclass(frozen=True)
class Claim:
    """The claim that a program equals a known one, with one mistake or two, `here` only in this case; or a place."""

    facts: list[str]
    questions: list[str]
    here: bool = False
    names: list[str] = dataclasses.field(default_factory=list)
    place: str = ""  # a sentence that says where the mistake is, if no known program has it
    whole: bool = False  # whether it explains every failing case, too
    alike: bool = False  # whether the results are only alike in every failing case, and equal in none

    def said(self, kind: Kind) -> str:
        """Return the facts as sentences, under a failure of this kind."""
        if self.place:
            return self.place
        said = f"{SEEN.get(kind, SEEN[Kind.RAISED] if self.alike else OUTPUT)} {', and '.join(self.facts)}."
        if self.here:
            return f"In this case, {said}{'' if self.whole else ' It may not explain every failing case.'}"
        return f"Two mistakes at once: {said}" if len(self.facts) > 1 else f"{said[0].upper()}{said[1:]}"
