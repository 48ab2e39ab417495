"""Attention and MLP, the two halves of a layer, as the sequence grows."""

import math
from functools import partial

import mlx.core as mx

from tiny_llm.qwen3 import Qwen3MLP, Qwen3MultiHeadAttention
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = (
    "lines",
    "ms per token, ratio of attention to MLP",
    ("MLP: ms per token", "attention: ms per token", "time ratio", "MAC ratio"),
)

E, H, H_KV, D, WIDTH = 256, 6, 2, 64, 576  # a layer of models/tiny-qwen3


def measure(quick: bool = False) -> Table:
    """Measure the time per token for L tokens, and count the MACs (multiply-accumulates) per token."""
    lengths = [8, 16] if quick else [64, 256, 512, 1024]
    up, queries, keys = (WIDTH, E), (H * D, E), (H_KV * D, E)
    mlp = Qwen3MLP(E, WIDTH, *map(_weights, (up, up, up[::-1])))
    attention = Qwen3MultiHeadAttention(
        E, H, H_KV, D, *map(_weights, (queries, keys, keys, queries[::-1])), q_norm=mx.ones(D), k_norm=mx.ones(D)
    )
    programs = []
    for length in lengths:
        x = mx.random.normal((1, length, E))
        programs += [partial(mlp, x), partial(attention, x, "causal")]
    times = seconds(*programs)
    rows = []
    for i, length in enumerate(lengths):
        in_mlp, in_attention = (1e3 * taken / length for taken in times[2 * i : 2 * i + 2])
        macs = 2 * E * (H + H_KV) * D + 2 * H * D * length  # per token: four projections, then scores and values
        rows.append((length, in_mlp, in_attention, in_attention / in_mlp, macs / (3 * E * WIDTH)))
    first, last = rows[0], rows[-1]
    return Table(
        ("L", "MLP: ms per token", "attention: ms per token", "time ratio", "MAC ratio"),
        tuple(rows),
        f"Attention takes {first[3]:.1f} times as long as the MLP for {first[0]} tokens and {last[3]:.1f} times as "
        f"long for {last[0]}: its time per token grows, the MLP's does not. MACs (multiply-accumulates) alone predict "
        f"a ratio of {last[4]:.1f} for the last row.",
    )


def _weights(shape: tuple[int, int]) -> mx.array:
    return mx.random.normal(shape) / math.sqrt(shape[1])
