"""Copies arrays to the runtime, runs a compiled kernel on them, and copies the outputs back."""

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from memory_watch.lines import base_of

from .compiling import prepare
from .counters import Counters, CountersInC
from .faults import KernelFault
from .wording import NO_ROOM, FaultInC, fault_of

INPUT, OUTPUT, FILLED, CONSTANT = range(4)  # runtime/memory.h
STEPS = 1_000_000_000  # runtime/steps.h; a thread may take a twentieth of them: some seconds
_MOST_GROUPS = 2**21  # that runtime/races.cpp can tell apart
_one_at_a_time = threading.Lock()  # the runtime knows one run


@dataclass(frozen=True)
class Buffer:
    """The buffer of a kernel parameter.

    `data` holds its bytes; of an uninitialized output only their number matters. The kernel's pointer is `first` bytes
    after the start.
    """

    name: str
    use: int
    data: np.ndarray[Any, Any]
    element: int  # bytes
    first: int = 0


@dataclass(frozen=True)
class Launch:
    """A compiled kernel and its launch configuration."""

    kernel: str
    library: Path
    texts: dict[str, str]  # source and header, by their names for the compiler
    grid: Sequence[int]
    threadgroup: Sequence[int]
    continues: bool = False  # after a fault that leaves the process intact


def run(launch: Launch, buffers: Sequence[Buffer]) -> tuple[list[bytes], Counters, list[KernelFault]]:
    """Run a kernel; return its outputs, its counters and its faults, of which there is one unless the launch goes on.

    Raises ValueError for more threadgroups than can be tracked, MemoryError if the buffers do not fit.
    """
    groups = 1
    for threads, size in zip(launch.grid, launch.threadgroup, strict=True):
        groups *= -(-threads // size)
    if groups > _MOST_GROUPS:
        raise ValueError(f"{groups:,} threadgroups are more than the simulator can run: {_MOST_GROUPS:,}")
    with _one_at_a_time:
        simulator, kernel = _runtime(prepare()[0]), _library(launch.library)
        try:
            pointers = [_handed(simulator, buffer) for buffer in buffers]
            fault, counters = ctypes.POINTER(FaultInC)(), ctypes.POINTER(CountersInC)()
            entry = ctypes.cast(kernel.simulator_entry, ctypes.c_void_p)
            code = base_of(entry.value or 0)
            count = simulator.simulator_run(
                entry,
                (ctypes.c_void_p * len(pointers))(*(p + b.first for p, b in zip(pointers, buffers, strict=True))),
                ctypes.c_void_p(code),
                (ctypes.c_uint32 * 3)(*launch.grid),
                (ctypes.c_uint32 * 3)(*launch.threadgroup),
                ctypes.c_int64(STEPS),
                ctypes.c_bool(launch.continues),
                ctypes.byref(fault),
                ctypes.byref(counters),
            )
            if any(fault[i].kind == NO_ROOM for i in range(count)):
                raise MemoryError("no room for the stacks of 1,024 threads")
            filled = [
                ctypes.string_at(pointer, buffer.data.nbytes)
                for pointer, buffer in zip(pointers, buffers, strict=True)
                if buffer.use in (OUTPUT, FILLED)
            ]
            found = [fault_of(fault[i], launch.kernel, launch.texts, launch.library) for i in range(count)]
            apart: dict[Any, KernelFault] = {}
            for each in found:
                apart.setdefault((each.kind, each.line, each.in_header, each.buffer, each.other), each)
            return filled, counters.contents.value(), list(apart.values())
        finally:
            simulator.simulator_end()


def raw(array: mx.array, contiguous: bool) -> tuple[np.ndarray[Any, Any], int, tuple[int, ...]]:
    """Return an array's bytes, the offset of its first element, and its strides in elements.

    If `contiguous`, a row-major copy; otherwise the memory as it is, from the lowest element of the array to the
    highest.
    """
    size = array.itemsize
    plain = array.view(mx.uint16) if array.dtype == mx.bfloat16 else array
    mx.eval(plain)
    memory_of: Any = plain  # it has the buffer protocol, of which its type says nothing
    seen = np.asarray(memoryview(memory_of))
    if contiguous or not array.size:
        copy = np.ascontiguousarray(seen)
        strides = tuple(int(np.prod(array.shape[i + 1 :])) for i in range(array.ndim))
        return copy.reshape(-1).view(np.uint8), 0, strides
    reach = [(n - 1) * step for n, step in zip(seen.shape, seen.strides, strict=True)]
    low, high = sum(min(0, r) for r in reach), sum(max(0, r) for r in reach) + size
    memory = ctypes.string_at(seen.ctypes.data + low, high - low)
    return np.frombuffer(memory, np.uint8), -low, tuple(step // size for step in seen.strides)


def array_of(data: bytes, shape: Sequence[int], dtype: mx.Dtype) -> mx.array:
    """Return an array with these bytes."""
    return mx.array(np.frombuffer(data, np.uint8)).view(dtype).reshape(shape)


def _handed(simulator: ctypes.CDLL, buffer: Buffer) -> int:
    pointer = simulator.simulator_add(
        buffer.name.encode(), ctypes.c_size_t(buffer.data.nbytes), ctypes.c_size_t(buffer.element), buffer.use
    )
    if not pointer:
        raise MemoryError(f"no room for {buffer.name}, {buffer.data.nbytes:,} bytes")
    if buffer.use != OUTPUT:
        ctypes.memmove(pointer, buffer.data.ctypes.data, buffer.data.nbytes)
    return int(pointer)


@cache
def _runtime(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.simulator_add.restype = ctypes.c_void_p
    return library


@cache
def _library(path: Path) -> ctypes.CDLL:
    return ctypes.CDLL(str(path))
