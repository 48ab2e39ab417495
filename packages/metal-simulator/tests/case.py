"""A kernel with what it runs on and what must come out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import mlx.core as mx
import numpy as np

from metal_simulator import Kernel, metal_kernel

Arrays = dict[str, Any]


def normal(dtype: mx.Dtype = mx.float32, **shapes: Sequence[int]) -> Callable[[np.random.Generator], Arrays]:
    """Inputs of these names and shapes, normally distributed."""
    return lambda r: {name: mx.array(r.normal(size=shape).astype("f")).astype(dtype) for name, shape in shapes.items()}


@dataclass(frozen=True)
class Case:
    """`arrays` makes the inputs, by name; `expected` the outputs, by name, of the inputs in float64 or as integers."""

    name: str
    source: str
    arrays: Callable[[np.random.Generator], Arrays]
    outputs: dict[str, tuple[Sequence[int], mx.Dtype]]
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    expected: Callable[..., Any]
    template: dict[str, Any] = field(default_factory=dict)
    header: str = ""
    contiguous: bool = True
    atomic: bool = False
    init_value: float | None = None
    tolerance: float = 2e-6

    @cached_property
    def inputs(self) -> Arrays:
        made = self.arrays(np.random.default_rng(7))
        return {name: value if isinstance(value, mx.array) else mx.array(value) for name, value in made.items()}

    def run(self, source: str | None = None, header: str | None = None) -> tuple[Kernel, list[mx.array]]:
        """The kernel after a run, and its outputs; of another source, where one is given."""
        kernel = metal_kernel(
            self.name,
            list(self.inputs),
            list(self.outputs),
            self.source if source is None else source,
            self.header if header is None else header,
            self.contiguous,
            self.atomic,
        )
        return kernel, kernel(
            inputs=list(self.inputs.values()),
            template=list(self.template.items()),
            grid=self.grid,
            threadgroup=self.threadgroup,
            output_shapes=[shape for shape, _ in self.outputs.values()],
            output_dtypes=[dtype for _, dtype in self.outputs.values()],
            init_value=self.init_value,
        )

    def check(self, made: Sequence[mx.array]) -> None:
        """Compare the outputs with what must come out; the tolerance is relative to the largest element."""
        plain = [np.array(a.astype(mx.float32) if a.dtype in HALVES else a) for a in self.inputs.values()]
        wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in plain]
        wanted = self.expected(*wide)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        assert len(wanted) == len(made)
        for one, array in zip(wanted, made, strict=True):
            got = np.array(array.astype(mx.float32) if array.dtype in HALVES else array)
            assert got.shape == np.shape(one)
            if got.dtype.kind == "f":
                np.testing.assert_allclose(got, one, rtol=self.tolerance, atol=self.tolerance * np.abs(one).max())
            else:
                np.testing.assert_array_equal(got, one)


HALVES = (mx.float16, mx.bfloat16)
EPSILON = {mx.float32: 2e-6, mx.float16: 1e-3, mx.bfloat16: 8e-3}
