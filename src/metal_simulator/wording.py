"""Makes a `KernelFault` from a report of the runtime or the compiler."""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

from memory_watch.lines import lines_at

from .faults import KernelFault, Kind, Where
from .translation import HEADER, SOURCE

Line = tuple[str, int]  # the name of the text, SOURCE, HEADER or that of an included file, and the number

# In the order of runtime/fault.h, from 1.
KINDS = (
    Kind.OUT_OF_BOUNDS,
    Kind.INPUT_WRITTEN,
    Kind.RACE,
    Kind.DIVERGENT_BARRIER,
    Kind.UNINITIALIZED_READ,
    Kind.OUTPUT_UNWRITTEN,
    Kind.ENDLESS_LOOP,
    Kind.TOO_MUCH_MEMORY,
    Kind.DIVISION_BY_ZERO,
    Kind.MISALIGNED,
    Kind.DIVERGENT_SIMD,
)
NO_ROOM = len(KINDS) + 1
_DOES = ("reads", "writes", "changes")
_WRAPPED = 2**32


class Three(ctypes.Structure):
    """A position."""

    _fields_ = (("x", ctypes.c_uint32), ("y", ctypes.c_uint32), ("z", ctypes.c_uint32))


class Party(ctypes.Structure):
    """One of the two accesses of a fault, as in runtime/fault.h."""

    _fields_ = (
        ("how", ctypes.c_int32),
        ("known", ctypes.c_int32),
        ("thread", Three),
        ("group", Three),
        ("at", ctypes.c_void_p),
        ("file", ctypes.c_char_p),
        ("line", ctypes.c_int32),
    )


class FaultInC(ctypes.Structure):
    """The struct in runtime/fault.h."""

    _fields_ = (
        ("kind", ctypes.c_int32),
        ("shared", ctypes.c_int32),
        ("index", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("other_count", ctypes.c_int64),
        ("here", Party),
        ("there", Party),
        ("name", ctypes.c_char * 64),
    )


def fault_of(found: FaultInC, kernel: str, texts: dict[str, str], library: Path) -> KernelFault:
    """Return the fault that the runtime reports; `texts` are source, header and included files, by name."""
    kind, name = KINDS[found.kind - 1], found.name.decode(errors="replace")
    here, there = _line(found.here, library, texts), _line(found.there, library, texts)
    about_element = kind in (
        Kind.OUT_OF_BOUNDS,
        Kind.INPUT_WRITTEN,
        Kind.RACE,
        Kind.UNINITIALIZED_READ,
        Kind.OUTPUT_UNWRITTEN,
        Kind.MISALIGNED,
    )
    about_buffer = kind is Kind.TOO_MUCH_MEMORY or (
        about_element and not (kind is Kind.OUT_OF_BOUNDS and found.other_count)
    )
    who = found.here if found.here.known else None
    return KernelFault(
        kind,
        kernel,
        _WORDS[kind](found, name, _where(there)),
        _where(here),
        _code(here, texts),
        buffer=(name or None) if about_buffer else None,
        index=found.index if about_element else None,
        thread=(who.thread.x, who.thread.y, who.thread.z) if who else None,
        threadgroup=(who.group.x, who.group.y, who.group.z) if who else None,
        other=_where(there),
    )


def refusal_of(said: str, kernel: str, texts: dict[str, str]) -> KernelFault:
    """Return the compiler's first error as a fault, at the kernel's own line."""
    error = re.search(r"^(.*?):(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", said, re.MULTILINE)
    at = None
    if error and (name := _name(error[1], texts)):
        at = (name, int(error[2]))
    elif own := re.search(rf"({SOURCE}|{HEADER}):(\d+)", said):  # where the rejected type was requested
        at = (own[1], int(own[2]))
    words = error[3] if error else (said.strip().splitlines() or ["the compiler says nothing"])[-1]
    words = re.sub(r" \[-W[^\]]*\]$", "", words)
    kind, message, buffer = _refusal(words)
    return KernelFault(kind, kernel, message, _where(at), _code(at, texts), buffer=buffer)


def _refusal(words: str) -> tuple[Kind, str, str | None]:
    if found := re.search(r"read-only location '[^\w]*(\w+)", words) or re.search(
        r"variable '(\w+)' with const", words
    ):
        return Kind.INPUT_WRITTEN, f"writes {found[1]}, but {found[1]} is an input", found[1]
    if "read-only variable is not assignable" in words:
        return Kind.INPUT_WRITTEN, "writes to an input", None
    if found := re.search(r"'(\w+)[^']*' is (?:used )?uninitialized", words):
        return Kind.UNINITIALIZED_READ, f"reads {found[1]}, to which nothing has been written", found[1]
    if "double" in words and "poisoned" in words:
        return Kind.DOES_NOT_COMPILE, "does not compile: Metal has no double", None
    if "frame size" in words or "stack frame" in words:
        return Kind.TOO_MUCH_MEMORY, "has variables of more than 200,000 bytes in one thread", None
    return Kind.DOES_NOT_COMPILE, f"does not compile: {words}", None


def _name(file: str, texts: dict[str, str]) -> str | None:
    """Return the name of the text that a compiler knows as this file."""
    return next((name for name in texts if file == name or file.endswith(f"/{name}")), None)


def _line(party: Party, library: Path, texts: dict[str, str]) -> Line | None:
    if party.line:
        file = party.file.decode()
        return _name(file, texts) or file, int(party.line)
    found = lines_at(library, party.at) if party.at else ()
    return next(((name, number) for file, number in found if (name := _name(file, texts))), None)


def _where(line: Line | None) -> Where | None:
    return Where(line[1], line[0] == HEADER, line[0] if line[0] not in (SOURCE, HEADER) else "") if line else None


def _code(line: Line | None, texts: dict[str, str]) -> str:
    lines = texts.get(line[0], "").split("\n") if line else []
    return lines[line[1] - 1] if line and line[1] <= len(lines) else ""


def _outside(found: FaultInC, name: str, _: Where | None) -> str:
    if found.other_count:  # not of a buffer: `name` is the type of a variable
        return f"uses index {found.index} of an array that is {name.strip(chr(39))}"
    if not name:
        return f"{_DOES[found.here.how]} memory that is in no buffer"
    index = str(found.index)
    # An index of 32 bits without a sign that went below zero.
    words = f" ({found.index - _WRAPPED} without a sign)" if found.index > _WRAPPED // 2 else ""
    return f"{_DOES[found.here.how]} {name}[{index}]{words}, but {name} has {_count(found.count, 'element')}"


def _race(found: FaultInC, name: str, other: Where | None) -> str:
    what = f"{_DOES[found.here.how]} {name}[{found.index}]"
    done, at = _DOES[found.there.how], f" at {other}" if other else ""
    if not found.there.known and not found.shared:
        return f"{what}, which another thread {done}{at}: a race; nothing orders threadgroups"
    memory = "mem_threadgroup" if found.shared else "mem_device"
    who = f"thread {_position(found.there.thread)}" if found.there.known else "another thread of its SIMD-group"
    return f"{what}, which {who} {done}{at}: a race; no barrier with mem_flags::{memory} lies between"


def _barrier(found: FaultInC, _: str, other: Where | None) -> str:
    if found.there.line:
        return f"is a barrier at which some threads of a threadgroup wait, and others wait at {other}"
    waiting, wait = _count(found.count, "thread"), "wait" if found.count > 1 else "waits"
    return (
        f"is a barrier at which {waiting} of a threadgroup {wait}, "
        f"and {found.other_count} {'have' if found.other_count > 1 else 'has'} ended without it"
    )


def _unwritten(found: FaultInC, name: str, _: Where | None) -> str:
    if found.other_count == found.count:
        return f"never writes {name}"
    missing = f"{found.other_count:,} of {_count(found.count, 'element')} are not written"
    return f"writes {name}, but {missing}: the first is {name}[{found.index}]"


_WORDS: dict[Kind, Callable[[FaultInC, str, Where | None], str]] = {
    Kind.OUT_OF_BOUNDS: _outside,
    Kind.INPUT_WRITTEN: lambda f, n, _: f"{_DOES[f.here.how]} {n}[{f.index}], but {n} is an input",
    Kind.RACE: _race,
    Kind.DIVERGENT_BARRIER: _barrier,
    Kind.UNINITIALIZED_READ: lambda f, n, _: f"reads {n}[{f.index}], to which nothing has been written",
    Kind.OUTPUT_UNWRITTEN: _unwritten,
    Kind.ENDLESS_LOOP: lambda *_: "is in a loop that does not end, or takes too long for this simulator",
    Kind.TOO_MUCH_MEMORY: lambda f, n, _: (
        f"brings threadgroup memory to {f.count:,} bytes with {n}; a threadgroup has {f.other_count:,}"
    ),
    Kind.DIVISION_BY_ZERO: lambda *_: "divides an integer by zero",
    Kind.MISALIGNED: lambda f, n, _: (
        f"{_DOES[f.here.how]} {f.other_count} bytes together at {n}[{f.index}], "
        f"which does not lie at a multiple of {f.other_count} bytes"
    ),
    Kind.DIVERGENT_SIMD: lambda f, n, _: (
        f"calls {n}, which all 32 threads of a SIMD-group must reach together: {_count(f.count, 'thread')} did"
    ),
}


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


def _position(three: Three) -> str:
    return f"({three.x}, {three.y}, {three.z})"
