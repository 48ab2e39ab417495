"""A built library, whose functions run on watched buffers."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .building import Parameter, Source
from .faults import BUFFERS, Fault, Report, fault_of

INPUT, OUTPUT, CHANGED = range(3)  # runtime/memory.h
TYPES: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


@dataclass(frozen=True)
class Fresh:
    """An output argument: elements that the function does not write are a fault."""

    shape: tuple[int, ...]
    dtype: Any = np.float32


class Library:
    """A library made by `building.build` from a source."""

    def __init__(self, path: Path, source: Source) -> None:
        self._path, self._source = path, source
        self._functions = source.functions
        # Of the last call, 0 in a fast build: the chunks of a loop that read an input and write an output, and for each
        # argument the number of loads from it and their bytes.
        self.chunks, self.loads = 0, [(0, 0)] * BUFFERS
        self._library = ctypes.CDLL(str(path), ctypes.RTLD_LOCAL)
        self._library.watch_add.restype = ctypes.c_void_p
        self._library.watch_add.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int32, ctypes.c_int32]
        self._library.watch_run.restype = ctypes.POINTER(Report)

    def call(self, name: str, arguments: Sequence[Any]) -> tuple[list[np.ndarray[Any, Any]], Fault | None]:
        """Call a function; return its filled fresh arguments, and its fault, if any.

        A pointer takes a NumPy array or `Fresh`, other parameters a number. An array of a non-const parameter changes
        in place. Raises ValueError if there is no such function, or the arguments do not match its parameters.
        """
        if (parameters := self._functions.get(name)) is None:
            there = ", ".join(self._functions) or "none"
            raise ValueError(f'{self._source.file.name} defines no extern "C" void {name}(...); there is {there}')
        if len(arguments) != len(parameters):
            raise ValueError(f"{name} takes {len(parameters)} arguments, not {len(arguments)}")
        buffers: list[tuple[int, np.ndarray[Any, Any]]] = []  # address, and the array to copy back to
        try:
            passed = [self._pass(i, *pair, buffers) for i, pair in enumerate(zip(parameters, arguments, strict=True))]
            pointers = (ctypes.c_void_p * len(passed))(*map(ctypes.addressof, passed))
            report = self._library.watch_run(self._library[f"watched_{name}"], pointers).contents
            self.chunks, self.loads = report.chunks, list(zip(report.loads, report.loaded, strict=True))
            for address, array in buffers:
                ctypes.memmove(array.ctypes.data, address, array.nbytes)
        finally:
            self._library.watch_drop()
        made = [a for (_, a), p in zip(buffers, _written(parameters), strict=True) if isinstance(arguments[p], Fresh)]
        return made, fault_of(report, name, self._source, self._path) if report.fault else None

    def _pass(self, number: int, parameter: Parameter, argument: Any, buffers: list[Any]) -> Any:
        """Return the C++ value of an argument."""
        if not parameter.points:
            return TYPES[parameter.kind](argument)
        if isinstance(argument, Fresh):
            array, use = np.empty(argument.shape, argument.dtype), OUTPUT
        else:
            array, use = argument, INPUT if parameter.constant else CHANGED
            if not array.flags.c_contiguous:
                raise ValueError(f"{parameter.name} is not contiguous")
        address = self._library.watch_add(array.nbytes, array.itemsize, number, use)
        if not address:
            raise MemoryError(f"no room for {parameter.name}")
        if use != OUTPUT:
            ctypes.memmove(address, array.ctypes.data, array.nbytes)
        if use != INPUT:
            buffers.append((address, array))
        return ctypes.c_void_p(address)


def _written(parameters: Sequence[Parameter]) -> list[int]:
    return [i for i, each in enumerate(parameters) if each.points and not each.constant]
