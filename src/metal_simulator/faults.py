"""What a kernel did wrong, in words, and at which of its lines."""

from dataclasses import dataclass
from enum import StrEnum

Position = tuple[int, int, int]


class Kind(StrEnum):
    """What can be wrong with a kernel."""

    DOES_NOT_COMPILE = "does not compile"
    OUT_OF_BOUNDS = "out of bounds"
    INPUT_WRITTEN = "input written"
    RACE = "race"
    DIVERGENT_BARRIER = "divergent barrier"
    UNINITIALISED_READ = "uninitialised read"
    OUTPUT_UNWRITTEN = "output unwritten"
    ENDLESS_LOOP = "endless loop"
    TOO_MUCH_MEMORY = "too much memory"
    DIVISION_BY_ZERO = "division by zero"
    MISALIGNED = "misaligned"
    DIVERGENT_SIMD = "divergent SIMD operation"


@dataclass(frozen=True)
class Where:
    """A line of a kernel's source, or of its header."""

    line: int
    in_header: bool = False

    def __str__(self) -> str:
        return f"line {self.line}{' of the header' * self.in_header}"


class KernelFault(Exception):
    """A kernel does what it must not. The run ended there; later faults are not known.

    Attributes:
        kind: what is wrong.
        line: of the source as it was handed over, the first being 1; None if no line can be named.
        in_header: whether it is a line of the header.
        message: in one sentence, which completes "line 3 ...".
        kernel: its name.
        code: the text of that line.
        buffer, index: what it is about, where it is about an element; the index counts elements.
        thread, threadgroup: who did it, as positions.
        other: the other line, of a race or of two barriers.
    """

    def __init__(
        self,
        kind: Kind,
        kernel: str,
        message: str,
        where: Where | None = None,
        code: str = "",
        *,
        buffer: str | None = None,
        index: int | None = None,
        thread: Position | None = None,
        threadgroup: Position | None = None,
        other: Where | None = None,
    ) -> None:
        self.kind, self.kernel, self.message, self.code = kind, kernel, message, code
        self.line = where.line if where else None
        self.in_header = bool(where and where.in_header)
        self.buffer, self.index, self.thread, self.threadgroup, self.other = buffer, index, thread, threadgroup, other
        text = f"{kernel}, {where} {message}" if where else f"{kernel} {message}"
        if code:
            text += f"\n    {code.strip()}"
        if thread is not None:
            text += f"\n  thread {thread} of threadgroup {threadgroup}"
        super().__init__(text)
