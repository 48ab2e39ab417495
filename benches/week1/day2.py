"""RoPE's error at large positions, and with angles in 16 bits."""

import mlx.core as mx
import numpy as np

from tiny_llm.positional_encoding import RoPE
from tiny_llm_course.measuring.clock import Table, number

# What the book draws of the table.
CHART = ("lines", "error, %", ("RoPE: %", "float16 angles: %", "bfloat16 angles: %"))

D, THETA = 128, 1e6  # Qwen3's
APART = 5
PAIRS = 256


def measure(quick: bool = False) -> Table:
    """Measure how scores of queries and keys five tokens apart change at later positions; they should not."""
    positions = [10, 100] if quick else [100, 1000, 4000, 32000]
    mx.random.seed(0)
    query, key = mx.random.normal((1, 1, PAIRS, D)), mx.random.normal((1, 1, PAIRS, D))
    rope = RoPE(D, positions[-1] + APART + 1, THETA)

    def scores(first: int, dtype: mx.Dtype | None) -> mx.array:
        """Return all pairs' scores with the keys at `first`, rotated by RoPE or by angles computed in `dtype`."""
        positions = [(query, first + APART), (key, first)]
        if dtype is None:
            rotated = [rope(x, slice(p, p + 1)) for x, p in positions]
        else:
            rotated = [_rotated(x, p, dtype) for x, p in positions]
        return mx.sum(rotated[0] * rotated[1], axis=-1)

    rows: list[tuple[float, ...]] = []
    for position in positions:
        drifts = []
        for dtype in (None, mx.float16, mx.bfloat16):
            at_first = scores(0, dtype)
            drift = mx.sqrt(mx.mean(mx.square(scores(position, dtype) - at_first))) / mx.std(at_first)
            drifts.append(100 * float(np.array(drift)))
        rows.append((position, *drifts))
    mine, half, brain = rows[-1][1:]
    return Table(
        ("position", "RoPE: %", "float16 angles: %", "bfloat16 angles: %"),
        tuple(rows),
        f"Tokens {APART} apart should score the same at any position. At position {positions[-1]}, RoPE's scores are "
        f"off by {number(mine)} % of their standard deviation; with float16 angles by {number(half)} %, with bfloat16 "
        f"angles by {number(brain)} %.",
    )


def _rotated(x: mx.array, position: int, dtype: mx.Dtype) -> mx.array:
    """Apply RoPE with angles computed in `dtype`."""
    frequencies = mx.array(THETA ** (-2.0 * np.arange(D // 2) / D)).astype(dtype)
    angles = (mx.array(position).astype(dtype) * frequencies).astype(mx.float32)
    first, second = mx.split(x, 2, axis=-1)
    cos, sin = mx.cos(angles), mx.sin(angles)
    return mx.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
