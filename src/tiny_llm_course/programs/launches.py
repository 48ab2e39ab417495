"""Kernels in Metal: a package's launches go to the simulator, which says what is wrong with them and at which line.

A week of the registry names the function through which its package launches them, `launches = "metal.device:run"`. It
takes the path of a file, its text and a launch, which hands the text to whatever makes kernels. `simulated` takes its
place: on every machine a kernel is run by the simulator, and its counters are kept. Where the default device is MLX's
GPU, which a check is marked with, the package's own function runs it.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx.core as mx

import metal_simulator
from memory_watch.faults import Fault, Line
from metal_simulator import Counters, Kind

from ..course.nouns import TASK_ID
from ..course.requirements import compiler
from ..paths import ROOT
from . import parts
from .parts import KernelFault, NotBuilt

STUB = re.compile(rf'^[ \t]*#error "(?P<label>{TASK_ID} [^"]*)"', re.MULTILINE)  # it need not be compiled
KEPT = (ROOT / ".tiny-llm" / "metal").resolve()  # what is compiled, by its content and this path
_counts: list[list[Counters]] = []  # of the blocks that count, the innermost last

Run = Callable[..., list[Any]]


def simulated(package: str, original: Run) -> Run:
    """What takes the place of the function through which a package launches kernels."""

    def run(source: Path, text: str, launch: Any) -> list[Any]:
        text = parts.with_exchanges(package, parts.below_package(source), text)
        if stub := STUB.search(text):
            raise RuntimeError(stub["label"])
        if mx.default_device() == mx.gpu:
            return original(source, text, launch)
        made = []

        def make(**how: Any) -> metal_simulator.Kernel:
            made.append(metal_simulator.metal_kernel(**how))
            return made[0]

        _settle()
        try:
            outputs: list[Any] = launch.by(make, source.stem, text)
        except metal_simulator.KernelFault as fault:
            raise _told(fault, source) from None
        counters = made[0].counters
        assert counters
        for counts in _counts[-1:]:
            counts.append(counters)
        return outputs

    return run


def prepare() -> None:
    """Compile what the simulator needs for every kernel, which is no part of any task's time.

    Raises:
        NotBuilt: it does not compile.
    """
    _settle()
    try:
        metal_simulator.prepare()
    except metal_simulator.NoCompiler as error:
        raise NotBuilt(str(error)) from error


def _settle() -> None:
    """Which compiler the simulator uses here, and where it keeps what is compiled."""
    os.environ["METAL_SIMULATOR_CXX"] = shlex.join(compiler())
    os.environ["METAL_SIMULATOR_CACHE"] = str(KEPT)


@contextmanager
def counted() -> Iterator[list[Counters]]:
    """What the launches move that the block makes, in turn."""
    _counts.append([])
    try:
        yield _counts[-1]
    finally:
        _counts.pop()


def _told(fault: metal_simulator.KernelFault, source: Path) -> Exception:
    """A fault, at a line of the file that the kernel is in."""
    refused = fault.kind is Kind.DOES_NOT_COMPILE
    lines = (Line(source, fault.line),) if fault.line else ()
    other = Line(source, fault.other.line) if fault.other else None
    what, _, why = fault.message.partition("; ") if fault.kind is Kind.RACE else (fault.message, "", "")
    who = f"thread {fault.thread} of threadgroup {fault.threadgroup}" if fault.thread else ""
    about = fault.message if refused else f"{fault.kind} {fault.buffer} {fault.index}"
    return KernelFault(Fault(what, lines, other), about, tuple(note for note in (why, who) if note))
