"""`metal_kernel`, and the kernel object that it returns."""

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from memory_watch.compiling import DoesNotCompile

from .compiling import library
from .counters import Counters
from .faults import KernelFault
from .includes import included
from .options import OnFault, handle, math_mode, on_fault_or_default
from .running import CONSTANT, FILLED, INPUT, OUTPUT, Buffer, Launch, array_of, raw, run
from .signature import Argument, Parameter, signature
from .translation import HEADER, SOURCE, translated
from .wording import refusal_of

MOST_THREADS = 1024  # of a threadgroup


def metal_kernel(
    name: str,
    input_names: Sequence[str],
    output_names: Sequence[str],
    source: str,
    header: str = "",
    ensure_row_contiguous: bool = True,
    atomic_outputs: bool = False,
    compile_options: Mapping[str, str] | None = None,
    *,
    on_fault: OnFault | None = None,
) -> "Kernel":
    """Return a kernel from the body of a Metal function, like `mlx.core.fast.metal_kernel`; it runs on the CPU.

    Args:
        compile_options: `math_mode` "fast" defines `__FAST_MATH__`, and computes as "safe" does.
        on_fault: "raise" a `KernelFault` at the first fault; "report" warns of each, collects them in the kernel's
            `faults` and continues; "ignore" continues. The default is that of the enclosing `patched`, else "raise".

    Raises:
        ValueError: there is no output, or an option is unknown.
    """
    if not output_names:
        raise ValueError("[metal_kernel] Must specify at least one output.")
    mode = math_mode(compile_options or {})
    names = list(input_names), list(output_names)
    on_fault_or_default(on_fault)
    return Kernel(name, *names, source, header, ensure_row_contiguous, atomic_outputs, mode, on_fault)


class Kernel:
    """A callable kernel, made by `metal_kernel`.

    `counters` has its last run's traffic, None before the first; `faults` the faults that the last run reported.
    """

    def __init__(
        self,
        name: str,
        input_names: Sequence[str],
        output_names: Sequence[str],
        source: str,
        header: str,
        ensure_row_contiguous: bool,
        atomic_outputs: bool,
        mode: str,
        on_fault: OnFault | None,
    ) -> None:
        self.name, self.source, self.header = name, source, header
        self.input_names, self.output_names = list(input_names), list(output_names)
        self.ensure_row_contiguous, self.atomic_outputs = ensure_row_contiguous, atomic_outputs
        self.mode, self.on_fault = mode, on_fault
        self.counters: Counters | None = None
        self.faults: list[KernelFault] = []

    def __call__(
        self,
        *,
        inputs: Sequence[Any],
        output_shapes: Sequence[Sequence[int]],
        output_dtypes: Sequence[mx.Dtype],
        grid: tuple[int, int, int],
        threadgroup: tuple[int, int, int],
        template: Sequence[tuple[str, Argument]] | None = None,
        init_value: float | None = None,
        verbose: bool = False,
        stream: Any = None,
    ) -> list[mx.array]:
        """Run the kernel on `grid` threads, and return its outputs, already evaluated.

        Raises:
            KernelFault: the kernel does not compile, or has a fault.
            ValueError: the arguments do not match, as in MLX.
        """
        for what, n, given in (
            ("inputs", len(self.input_names), inputs),
            ("output_shapes", len(self.output_names), output_shapes),
            ("output_dtypes", len(self.output_names), output_dtypes),
        ):
            if len(given) != n:
                raise ValueError(f"[metal_kernel] Expected `{what}` to have size {n} but got size {len(given)}.")
        if stream is not None and getattr(stream, "device", stream) in (mx.cpu, mx.Device(mx.cpu)):
            raise ValueError("[metal_kernel] Only supports the GPU.")
        size = fitted(grid, threadgroup)
        arrays = [each if isinstance(each, mx.array) else mx.array(each) for each in inputs]
        made = signature(
            self.name,
            self.source,
            list(zip(self.input_names, arrays, strict=True)),
            list(zip(self.output_names, output_dtypes, strict=True)),
            list(template or ()),
            self.atomic_outputs,
        )
        if verbose:
            print(f"Generated source code for `{self.name}`:\n```\n{made.metal(self.source, self.header)}\n```")
        text = translated(made, self.source, self.header, self.mode)
        texts = {SOURCE: self.source, HEADER: self.header, **included(text)}
        try:
            path = library(text)
        except DoesNotCompile as error:
            raise refusal_of(str(error), self.name, texts) from None
        outputs = [_empty(shape, dtype, init_value) for shape, dtype in zip(output_shapes, output_dtypes, strict=True)]
        buffers = self._inputs(made.parameters, arrays)
        for name, data, dtype in zip(self.output_names, outputs, output_dtypes, strict=True):
            buffers.append(Buffer(name, OUTPUT if init_value is None else FILLED, data, dtype.size))
        on_fault = on_fault_or_default(self.on_fault)
        launch = Launch(self.name, path, texts, grid, size, continues=on_fault != "raise")
        filled, self.counters, faults = run(launch, buffers)
        self.faults = handle(faults, on_fault)
        return [array_of(*each) for each in zip(filled, output_shapes, output_dtypes, strict=True)]

    def _inputs(self, parameters: Sequence[Parameter], arrays: Sequence[mx.array]) -> list[Buffer]:
        memory = [raw(array, self.ensure_row_contiguous) for array in arrays]
        buffers = []
        for parameter in parameters:
            if parameter.about == "output":
                continue
            array, (data, first, strides) = arrays[parameter.of], memory[parameter.of]
            if parameter.about == "input":
                use = CONSTANT if parameter.constant else INPUT
                buffers.append(Buffer(parameter.name, use, data, array.itemsize, first))
                continue
            about: dict[str, tuple[Any, type]] = {
                "shape": (array.shape, np.int32),
                "strides": (strides, np.int64),
                "ndim": ([array.ndim], np.int32),
            }
            values = np.array(*about[parameter.about])
            buffers.append(Buffer(parameter.name, CONSTANT, values.view(np.uint8), values.itemsize))
        return buffers


def fitted(grid: Sequence[int], threadgroup: Sequence[int]) -> tuple[int, ...]:
    """Return the threadgroup's size, limited to the grid."""
    for what, numbers in (("grid", grid), ("threadgroup", threadgroup)):
        if len(numbers) != 3 or min(numbers) < 1:
            raise ValueError(f"[metal_kernel] {what} must be three numbers from 1, not {tuple(numbers)}.")
    if (threads := int(np.prod(threadgroup))) > MOST_THREADS:
        raise ValueError(
            f"Thread group size ({threads}) is greater than  the maximum allowed threads per threadgroup "
            f"({MOST_THREADS})."
        )
    return tuple(min(pair) for pair in zip(grid, threadgroup, strict=True))


def _empty(shape: Sequence[int], dtype: mx.Dtype, init_value: float | None) -> np.ndarray[Any, Any]:
    """Return an output's bytes before the run; arbitrary without an initial value."""
    if init_value is not None:
        return raw(mx.full(tuple(shape), init_value, dtype), True)[0]
    return np.empty(int(np.prod(shape)) * dtype.size, np.uint8)
