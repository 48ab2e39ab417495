"""`metal_library`: the kernels of a whole Metal file, called with their buffers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from memory_watch.compiling import DoesNotCompile

from .compiling import library
from .counters import Counters
from .declarations import Declared, kernels
from .faults import KernelFault
from .includes import included
from .kernel import fitted
from .options import OnFault, handle, math_mode, on_fault_or_default
from .running import CONSTANT, FILLED, INPUT, OUTPUT, Buffer, Launch, array_of, raw, run
from .signature import ATTRIBUTES
from .translation import SOURCE, entry, preamble
from .wording import refusal_of

Shaped = tuple[Sequence[int], mx.Dtype]  # of an output


def metal_library(
    source: str | Path, *, compile_options: Mapping[str, str] | None = None, on_fault: OnFault | None = None
) -> "Library":
    """Return the kernels of a Metal file, given its path or its text; options are as in `metal_kernel`.

    Raises ValueError for textures and function constants, which the simulator does not support.
    """
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    on_fault_or_default(on_fault)
    folder = source.resolve().parent if isinstance(source, Path) else None
    return Library(text, folder, math_mode(compile_options or {}), on_fault)


class Library:
    """The kernels of a file: `library["name"]`, or `library["name<float, 4>"]` for an instance of a template."""

    def __init__(self, text: str, folder: Path | None, mode: str, on_fault: OnFault | None) -> None:
        self.text, self.folder, self.mode, self.on_fault = text, folder, mode, on_fault
        self._declared, self._named = kernels(text)

    @property
    def names(self) -> list[str]:
        """Return the names of the kernels, and the host names of instances."""
        return [*self._declared, *self._named]

    def __getitem__(self, name: str) -> "Function":
        instance = self._named.get(name, name)
        if (parameters := self._declared.get(instance.partition("<")[0].strip())) is None:
            raise KeyError(f"the file has no kernel {name}; it has {', '.join(self.names) or 'none'}")
        return Function(self, name, instance, parameters)


class Function:
    """A kernel of a file. `counters` and `faults` are as in `Kernel`."""

    def __init__(self, file: Library, name: str, instance: str, parameters: Sequence[Declared]) -> None:
        self.name, self.parameters = name, parameters
        self.counters: Counters | None = None
        self.faults: list[KernelFault] = []
        self._file, self._instance = file, instance

    def __call__(
        self,
        *,
        buffers: Mapping[str | int, Any] | Sequence[Any],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        threadgroup_memory: Mapping[str | int, int] | Sequence[int] = (),
    ) -> dict[str, mx.array]:
        """Run the kernel on `grid` threads, and return the buffers that it may write, by name.

        Args:
            buffers: by name or number, or in the order of their numbers: an array, a number, the bytes of a struct, or
                a shape and a dtype for an output without initial values.
            grid: the number of threads, as in `dispatchThreads`.
            threadgroup: the size of a threadgroup.
            threadgroup_memory: the bytes of each `[[threadgroup(n)]]` parameter.

        Raises:
            KernelFault: the kernel does not compile, or has a fault.
            ValueError: the buffers do not match the parameters.
        """
        size = fitted(grid, threadgroup)
        shared = self._given("threadgroup", threadgroup_memory)
        given = self._given("buffer", buffers)
        memory = [_buffer(self.name, each, given[each.name]) for each in self._of("buffer")]
        before = preamble(self._file.text, SOURCE, self._file.mode, self._file.folder)
        texts = {SOURCE: self._file.text, **included(before)}
        try:
            path = library(f'{before}\n#line 1 "after the file"\n{self._entry(shared)}')
        except DoesNotCompile as error:
            raise refusal_of(str(error), self.name, texts) from None
        on_fault = on_fault_or_default(self._file.on_fault)
        launch = Launch(self.name, path, texts, grid, size, continues=on_fault != "raise")
        filled, self.counters, faults = run(launch, [buffer for buffer, _, _ in memory])
        self.faults = handle(faults, on_fault)
        written = [each for each in memory if each[0].use in (OUTPUT, FILLED)]
        pairs = zip(filled, written, strict=True)
        return {buffer.name: array_of(data, shape, dtype) for data, (buffer, shape, dtype) in pairs}

    def _of(self, about: str) -> list[Declared]:
        return sorted((each for each in self.parameters if each.about == about), key=lambda each: each.number)

    def _given(self, about: str, values: Mapping[str | int, Any] | Sequence[Any]) -> dict[str, Any]:
        """Return what is given for each parameter, by name."""
        wanted = self._of(about)
        if not isinstance(values, Mapping):
            values = (
                dict(zip((each.number for each in wanted), values, strict=False)) if len(values) == len(wanted) else {}
            )
        by_name = {each.name: values[key] for each in wanted for key in (each.name, each.number) if key in values}
        if len(by_name) != len(wanted) or len(values) != len(wanted):
            listed = ", ".join(f"{each.name} ({about} {each.number})" for each in wanted) or "none"
            raise ValueError(f"{self.name} takes these {about} parameters, each once: {listed}.")
        return by_name

    def _entry(self, shared: Mapping[str, int]) -> str:
        """Return the function that calls the kernel for one thread."""
        numbers = {each.name: i for i, each in enumerate(self._of("buffer"))}
        variables, arguments = "", []
        for i, each in enumerate(self.parameters):
            if each.about == "buffer":
                arguments.append(
                    f"simulator::{'Reference' if each.is_reference else 'Pointer'}{{b[{numbers[each.name]}]}}"
                )
            elif each.about == "threadgroup":
                element = f"simulator::Element<{i}, decltype(&{self._instance})>"
                count = f"({shared[each.name]} + sizeof({element}) - 1) / sizeof({element})"
                variables += f"static metal::Shared<{element}[{count}]> shared{i};"
                arguments.append(f'simulator::Pointer{{&shared{i}.declare("{each.name}")}}')
            else:
                arguments.append(_attribute(each))
        return entry(f"{variables} {self._instance}({', '.join(arguments)})")


def _attribute(parameter: Declared) -> str:
    """Return the value of an attribute as the type that the parameter has."""
    kind, value = ATTRIBUTES[parameter.about]
    if kind == "uint":
        return f"{parameter.type}({value})"
    width = int(parameter.type[-1]) if parameter.type[-1:] in ("2", "3") else 1
    return f"{parameter.type}({', '.join(f'{value}.{axis}' for axis in 'xyz'[:width])})"


def _buffer(kernel: str, parameter: Declared, given: Any) -> tuple[Buffer, Sequence[int], mx.Dtype]:
    """Return a parameter's buffer, with the shape and dtype that it has as an array."""
    name, dtype = parameter.name, parameter.dtype
    use = CONSTANT if parameter.constant else INPUT if parameter.reads_only else FILLED
    if isinstance(given, bytes):
        return Buffer(name, use, np.frombuffer(given, np.uint8).copy(), 1), (len(given),), mx.uint8
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], mx.Dtype):
        shape, made = given
        if use != FILLED:
            raise ValueError(f"{kernel} only reads {name}: pass an array.")
        return Buffer(name, OUTPUT, np.empty(int(np.prod(shape)) * made.size, np.uint8), made.size), shape, made
    if not isinstance(given, mx.array):
        given = mx.array(given, dtype) if isinstance(given, bool | int | float) and dtype else mx.array(given)
    if dtype and given.dtype != dtype:
        raise ValueError(f"{kernel} declares {name} as {parameter.type}, but its array has {given.dtype}.")
    return Buffer(name, use, raw(given, True)[0], given.itemsize), given.shape, given.dtype
