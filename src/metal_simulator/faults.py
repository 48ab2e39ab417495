"""A kernel's fault, in words, with its source lines."""

from dataclasses import dataclass
from enum import StrEnum

Position = tuple[int, int, int]


class Kind(StrEnum):
    """The kinds of faults."""

    DOES_NOT_COMPILE = "does not compile"
    OUT_OF_BOUNDS = "out of bounds"
    INPUT_WRITTEN = "input written"
    RACE = "race"
    DIVERGENT_BARRIER = "divergent barrier"
    UNINITIALIZED_READ = "uninitialized read"
    OUTPUT_UNWRITTEN = "output unwritten"
    ENDLESS_LOOP = "endless loop"
    TOO_MUCH_MEMORY = "too much memory"
    DIVISION_BY_ZERO = "division by zero"
    MISALIGNED = "misaligned"
    DIVERGENT_SIMD = "divergent SIMD operation"


@dataclass(frozen=True)
class Where:
    """A line of a kernel's source, of its header, or of a file that one of them includes."""

    line: int
    in_header: bool = False
    file: str = ""  # that is included

    def __str__(self) -> str:
        return f"line {self.line}{' of the header' * self.in_header}{f' of {self.file}' * bool(self.file)}"


class FaultWarning(UserWarning):
    """A fault that was reported instead of raised."""


class KernelFault(Exception):
    """A fault of a kernel. Raised, it ended the run there; later faults are unknown.

    Attributes:
        kind: the kind of fault.
        line: of the source as given, from 1; None if unknown.
        in_header: whether it is a line of the header.
        file: the included file that has the line, else "".
        message: one sentence, which completes "line 3 ...".
        kernel: its name.
        code: the text of that line.
        buffer, index: the element concerned, if any; the index counts elements.
        thread, threadgroup: the positions of the thread.
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
        self.in_header, self.file = bool(where and where.in_header), where.file if where else ""
        self.buffer, self.index, self.thread, self.threadgroup, self.other = buffer, index, thread, threadgroup, other
        text = f"{kernel}, {where} {message}" if where else f"{kernel} {message}"
        if code:
            text += f"\n    {code.strip()}"
        if thread is not None:
            text += f"\n  thread {thread} of threadgroup {threadgroup}"
        super().__init__(text)
