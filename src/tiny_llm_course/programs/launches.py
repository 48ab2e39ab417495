"""Kernels in Metal: a package's launches go to the simulator, which reports faults with their lines.

A week of the registry names the function through which its package launches them, `launches = "metal.device:run"`. It
takes a file's path, its text and a launch, which passes the text to a kernel factory. `simulated` replaces it: the
simulator runs each kernel and its counters are kept. If the default device is MLX's GPU, as marked checks ask, the
package's own function runs it.
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

from ..course.entities import TASK_ID
from ..course.requirements import compiler
from ..paths import ROOT
from . import parts
from .parts import KernelFault, NotBuilt

STUB = re.compile(rf'^[ \t]*#error "(?P<label>{TASK_ID} [^"]*)"', re.MULTILINE)  # it need not be compiled
KEPT = (ROOT / ".tiny-llm" / "metal").resolve()  # what is compiled, by its content and this path
Listener = Callable[[str, Counters], None]  # gets a launched kernel's name and counters
_listeners: list[Listener] = []  # the innermost last, which alone is called

Run = Callable[..., list[Any]]


def simulated(package: str, original: Run) -> Run:
    """Return a replacement for the function through which a package launches kernels."""

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
            raise _at_line(fault, source) from None
        counters = made[0].counters
        assert counters
        for listener in _listeners[-1:]:
            listener(source.stem, counters)
        return outputs

    return run


def prepare() -> None:
    """Compile what the simulator needs for every kernel, outside any task's time; raise NotBuilt if that fails."""
    _settle()
    try:
        metal_simulator.prepare()
    except metal_simulator.NoCompiler as error:
        raise NotBuilt(str(error)) from error


def _settle() -> None:
    os.environ["METAL_SIMULATOR_CXX"] = shlex.join(compiler())
    os.environ["METAL_SIMULATOR_CACHE"] = str(KEPT)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Call a listener after each launch that the block makes."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.pop()


@contextmanager
def counted() -> Iterator[list[Counters]]:
    """Collect the counters of the launches that the block makes, in order."""
    found: list[Counters] = []
    with listening(lambda _, counters: found.append(counters)):
        yield found


def _at_line(fault: metal_simulator.KernelFault, source: Path) -> Exception:
    refused = fault.kind is Kind.DOES_NOT_COMPILE
    lines = (Line(source, fault.line),) if fault.line else ()
    other = Line(source, fault.other.line) if fault.other else None
    what, _, why = fault.message.partition("; ") if fault.kind is Kind.RACE else (fault.message, "", "")
    who = f"thread {fault.thread} of threadgroup {fault.threadgroup}" if fault.thread else ""
    about = fault.message if refused else f"{fault.kind} {fault.buffer} {fault.index}"
    return KernelFault(Fault(what, lines, other), about, tuple(note for note in (why, who) if note))
