"""Runs a few lines of Metal."""

from typing import Any

import mlx.core as mx
import numpy as np

from metal_simulator import metal_kernel


def run(
    source: str,
    outputs: list[tuple[tuple[int, ...], mx.Dtype]],
    inputs: dict[str, Any] | None = None,
    grid: tuple[int, int, int] = (32, 1, 1),
    threadgroup: tuple[int, int, int] = (32, 1, 1),
    **more: Any,
) -> list[np.ndarray]:
    make = {key: more.pop(key) for key in ("header", "ensure_row_contiguous", "atomic_outputs") if key in more}
    names = ["out", "more", "rest"][: len(outputs)]
    kernel = metal_kernel("k", list(inputs or {}), names, source, **make)
    made = kernel(
        inputs=list((inputs or {}).values()),
        grid=grid,
        threadgroup=threadgroup,
        output_shapes=[shape for shape, _ in outputs],
        output_dtypes=[dtype for _, dtype in outputs],
        **more,
    )
    assert [a.dtype for a in made] == [dtype for _, dtype in outputs]
    return [np.array(a.astype(mx.float32) if a.dtype == mx.bfloat16 else a) for a in made]
