"""A kernel's fault, in words, with its source lines."""

import ctypes
import signal
from dataclasses import dataclass
from pathlib import Path

from .building import RUNTIME, Source
from .compiling import CALLS, UNIT
from .lines import lines_at

DEPTH, BUFFERS = 12, 16  # runtime/run.cpp
OUTSIDE, INTO_INPUT, UNWRITTEN_READ, RACE, SIGNAL, THROWN, UNWRITTEN, ENDLESS = range(1, 9)
DOES = {0: "reads", 1: "writes", 2: "changes", -1: "touches"}
OWN = [file.name for folder in (RUNTIME, CALLS) for file in folder.iterdir()]  # lines of the runtime are skipped
SIGNALS = {
    "SIGSEGV": "touches memory that is not there",
    "SIGBUS": "touches memory that is not there",
    "SIGFPE": "divides an integer by zero",
    "SIGILL": "uses an instruction that this processor does not have",
    "SIGABRT": "gives up (abort)",
}


class Report(ctypes.Structure):
    """The report that runtime/run.cpp fills."""

    _fields_ = (
        ("fault", ctypes.c_int32),
        ("buffer", ctypes.c_int32),
        ("touched", ctypes.c_int32),
        ("signal", ctypes.c_int32),
        ("index", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("chunk", ctypes.c_int64),
        ("other_chunk", ctypes.c_int64),
        ("chunks", ctypes.c_int64),
        ("other_touched", ctypes.c_int32),
        ("depth", ctypes.c_int32),
        ("at", ctypes.c_void_p),
        ("other_at", ctypes.c_void_p),
        ("callers", ctypes.c_void_p * DEPTH),
        ("words", ctypes.c_char * 512),
        ("loads", ctypes.c_int64 * BUFFERS),
        ("loaded", ctypes.c_int64 * BUFFERS),
    )


@dataclass(frozen=True)
class Line:
    """A line of a source."""

    file: Path
    number: int


@dataclass(frozen=True)
class Fault:
    """One fault; `what` completes "matvec.cpp:41 ..."."""

    what: str
    lines: tuple[Line, ...]  # call stack, innermost last
    other: Line | None = None  # the other access of a race
    thrown: str | None = None  # the exception's message, if that is the fault


def fault_of(report: Report, function: str, source: Source, library: Path) -> Fault:
    """Return the fault in the report of a function call."""
    parameters = source.functions[function]
    calls = [report.callers[i] for i in reversed(range(report.depth))]
    lines = tuple(line for at in [*calls, report.at] if at for line in _lines(library, at, source.file))
    others = _lines(library, report.other_at, source.file) if report.other_at else ()
    other = next((line for line in reversed(others) if line.file == source.file), None)
    name = parameters[report.buffer].name if report.buffer >= 0 else ""
    element = f"{name}[{report.index}]"
    does, words = DOES[report.touched], report.words.decode(errors="replace")
    if report.fault == THROWN:
        return Fault(f"throws {words}", lines, thrown=words)
    if report.fault == SIGNAL:
        what = SIGNALS.get(signal.Signals(report.signal).name, f"ends by signal {report.signal}")
    elif report.fault == UNWRITTEN:
        more = f", and {report.count - 1} more of {name}" if report.count > 1 else ""
        what = f"{function} leaves {element} unwritten{more}"
    elif report.fault == RACE:
        done = DOES[report.other_touched]
        what = f"{does} {element if name else 'shared memory'} in one chunk, and another chunk {done} it: a race"
    elif report.fault == ENDLESS:
        what = "seems not to end: it has touched memory 20 million times"
    elif report.fault == INTO_INPUT:
        what = f"{does} {element}, which is an input"
    elif report.fault == UNWRITTEN_READ:
        what = f"{does} {element} before anything has been written there"
    elif name:
        what = f"{does} {element}, and {name} has {report.count} element{'s' * (report.count != 1)}"
    else:
        what = f"{does} {'before' if report.index < 0 else 'past'} the {report.count} bytes that it has allocated"
    return Fault(what, lines, other)


def _lines(library: Path, address: int, source: Path) -> tuple[Line, ...]:
    """Return the source lines of a return address, innermost inlined function last."""
    found = [(Path(file), number) for file, number in reversed(lines_at(library, address))]
    lines = [Line(source if file.name == UNIT else file, number) for file, number in found]
    return tuple(line for line in lines if line.file.is_absolute() and line.file.name not in OWN)
