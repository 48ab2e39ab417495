"""Launching the Metal kernels of this folder: on an Apple GPU, on an NVIDIA GPU, or else on the CPU simulator.

A file `NAME.metal` is the body of one kernel, as `mx.fast.metal_kernel` takes it: MLX generates the signature from the
names of inputs, outputs and template, and from what the body uses, such as `x_shape` and `thread_position_in_grid`.
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
# Matches `threadgroup float sums[32];` but not `threadgroup float* sums`: a variable, not a pointer.
SHARED = re.compile(r"\bthreadgroup\s+(?=[\w:<>]+(?:\s+\w+)?\s+\w+\s*[\[;])")
ADDRESS_SPACE = re.compile(r"\b(?:threadgroup|device|constant|thread)\s+(?=\w)")  # CUDA C++ has no such qualifiers


@dataclass(frozen=True)
class Launch:
    """A kernel's inputs, outputs and launch sizes.

    `inputs` are arrays of at least one dimension, `outputs` are shapes and dtypes, template values are dtypes, integers
    or booleans. `grid` counts threads and is a multiple of `threadgroup` on every axis, as CUDA needs.
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
        """Build the kernel with `mx.fast.metal_kernel` or a function like it, run it, and return the outputs."""
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
    """Run the kernel of this name and return its outputs. If all outputs are empty, nothing is run.

    Raises:
        ValueError: the device cannot run the source; on the simulator a `KernelFault`, with the line.
    """
    if not any(math.prod(shape) for shape, _ in work.outputs.values()):
        return [mx.zeros(shape, dtype) for shape, dtype in work.outputs.values()]
    file = FOLDER / f"{name}.metal"
    return run(file, _read(file), work)


def run(source: Path, text: str, work: Launch) -> list[mx.array]:
    """Run a kernel, given its file and its text, on this machine's device."""
    if mx.metal.is_available():
        return work.by(mx.fast.metal_kernel, source.stem, text)
    if mx.cuda.is_available():
        return work.by(mx.fast.cuda_kernel, source.stem, in_cuda(text), _read(FOLDER / "cuda_prelude.h"))
    from metal_simulator import metal_kernel

    return work.by(metal_kernel, source.stem, text)


def in_cuda(text: str) -> str:
    """Return a kernel's body without the Metal keywords that `cuda_prelude.h` cannot define.

    Raises:
        ValueError: the body uses SIMD-group matrices.
    """
    if "simdgroup_multiply" in text:
        raise ValueError("CUDA has no SIMD-group matrices: this kernel needs Metal, or the simulator")
    return ADDRESS_SPACE.sub("", SHARED.sub("__shared__ ", text))


@cache
def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")
