"""Runs a kernel in Metal that lies beside this file: on Apple's GPU, on NVIDIA's, or else on the CPU simulator.

A file `NAME.metal` is the body of one kernel, as `mx.fast.metal_kernel` takes it: MLX writes the head, by the names of
inputs, outputs and template, and by what the body asks for, such as `x_shape` and `thread_position_in_grid`.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx

FOLDER = Path(__file__).parent
# `threadgroup float sums[32];` and not `threadgroup float* sums`: a variable, and no pointer to one.
SHARED = re.compile(r"\bthreadgroup\s+(?=[\w:<>]+(?:\s+\w+)?\s+\w+\s*[\[;])")
PLACE = re.compile(r"\b(?:threadgroup|device|constant|thread)\s+(?=\w)")  # of memory, of which CUDA has no word


@dataclass(frozen=True)
class Launch:
    """What a kernel is run on.

    `inputs` are arrays with one dimension at least, `outputs` have shapes and dtypes, the template has types, whole
    numbers and truths. Of the grid's threads each threadgroup has as many as the next: on NVIDIA there are no others.
    """

    inputs: Mapping[str, mx.array]
    outputs: Mapping[str, tuple[tuple[int, ...], mx.Dtype]]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    template: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(threads % size for threads, size in zip(self.grid, self.threadgroup, strict=True)):
            raise ValueError(f"a grid of {self.grid} threads cannot be cut into threadgroups of {self.threadgroup}")
        if flat := [name for name, array in self.inputs.items() if not array.ndim]:
            raise ValueError(f"{flat[0]} has shape (), but one dimension at least is needed")

    def by(self, make: Callable[..., Any], name: str, source: str, header: str = "") -> list[mx.array]:
        """The outputs, of a kernel that is made by `mx.fast.metal_kernel` or its like."""
        made: list[mx.array] = make(
            name=name, input_names=[*self.inputs], output_names=[*self.outputs], source=source, header=header
        )(
            inputs=[*self.inputs.values()],
            template=[*self.template.items()],
            grid=self.grid,
            threadgroup=self.threadgroup,
            output_shapes=[shape for shape, _ in self.outputs.values()],
            output_dtypes=[dtype for _, dtype in self.outputs.values()],
        )
        return made


def launch(name: str, work: Launch) -> list[mx.array]:
    """Run the kernel in the file of this name: its outputs. Where none of them has an element, there is nothing to run.

    Raises:
        ValueError: the source is not what the device can run; on the simulator a `KernelFault`, with its line.
    """
    if not any(math.prod(shape) for shape, _ in work.outputs.values()):
        return [mx.zeros(shape, dtype) for shape, dtype in work.outputs.values()]
    file = FOLDER / f"{name}.metal"
    return run(file, _read(file), work)


def run(source: Path, text: str, work: Launch) -> list[mx.array]:
    """Run the kernel that stands in a file, given its text, on what this machine has."""
    if mx.metal.is_available():
        return work.by(mx.fast.metal_kernel, source.stem, text)
    if mx.cuda.is_available():
        return work.by(mx.fast.cuda_kernel, source.stem, in_cuda(text), _read(FOLDER / "cuda_prelude.h"))
    from metal_simulator import metal_kernel

    return work.by(metal_kernel, source.stem, text)


def in_cuda(text: str) -> str:
    """A kernel's body without the words of Metal that `cuda_prelude.h` cannot give a meaning to.

    Raises:
        ValueError: the body multiplies matrices of a SIMD-group.
    """
    if "simdgroup_multiply" in text:
        raise ValueError("CUDA has no matrices of a SIMD-group: this kernel needs Metal, or the simulator")
    return PLACE.sub("", SHARED.sub("__shared__ ", text))


@cache
def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")
