"""RoPE's error at large positions, and with angles in 16 bits."""

import mlx.core as mx
import numpy as np

from tiny_llm.positional_encoding import RoPE
from tiny_llm_course.measuring.clock import Table, number

# What the book draws of the table.
CHART = ("lines", "error, %", ("RoPE %", "angles in float16 %", "in bfloat16 %"))

D, THETA = 128, 1e6  # Qwen3's
APART = 5
PAIRS = 256


def measure(quick: bool = False) -> Table:
    """The same queries and keys, five tokens apart, further and further into a text: their scores should stay."""
    positions = [10, 100] if quick else [100, 1000, 4000, 32000]
    mx.random.seed(0)
    query, key = mx.random.normal((1, 1, PAIRS, D)), mx.random.normal((1, 1, PAIRS, D))
    rope = RoPE(D, positions[-1] + APART + 1, THETA)

    def scores(first: int, dtype: mx.Dtype | None) -> mx.array:
        """Of all pairs, the key at `first`: turned by RoPE, or by angles that are computed in a dtype."""
        places = [(query, first + APART), (key, first)]
        if dtype is None:
            turned = [rope(x, slice(place, place + 1)) for x, place in places]
        else:
            turned = [_turned(x, place, dtype) for x, place in places]
        return mx.sum(turned[0] * turned[1], axis=-1)

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
        ("position", "RoPE %", "angles in float16 %", "in bfloat16 %"),
        tuple(rows),
        f"Tokens {APART} apart score the same anywhere. At position {positions[-1]} yours are off by {number(mine)} % "
        f"of the scores' spread; with angles in float16 by {number(half)} %, in bfloat16 by {number(brain)} %.",
    )


def _turned(x: mx.array, position: int, dtype: mx.Dtype) -> mx.array:
    """What RoPE does, but for the dtype of its angles."""
    frequencies = mx.array(THETA ** (-2.0 * np.arange(D // 2) / D)).astype(dtype)
    angles = (mx.array(position).astype(dtype) * frequencies).astype(mx.float32)
    first, second = mx.split(x, 2, axis=-1)
    cos, sin = mx.cos(angles), mx.sin(angles)
    return mx.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
