"""Attention and MLP, the two halves of a layer, as the sequence grows."""

import math
from functools import partial

import mlx.core as mx

from tiny_llm.qwen3 import Qwen3MLP, Qwen3MultiHeadAttention
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("lines", "ms a token", ("MLP, ms a token", "attention, ms a token"))

E, H, H_KV, D, WIDTH = 256, 6, 2, 64, 576  # a layer of models/tiny-qwen3


def measure(quick: bool = False) -> Table:
    """The time for each of L tokens, and what counting says: MACs, multiplications each with its addition."""
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
        macs = 2 * E * (H + H_KV) * D + 2 * H * D * length  # a token's four projections; its scores and values
        rows.append((length, in_mlp, in_attention, in_attention / in_mlp, macs / (3 * E * WIDTH)))
    first, last = rows[0], rows[-1]
    return Table(
        ("L", "MLP, ms a token", "attention, ms a token", "ratio of times", "of MACs"),
        tuple(rows),
        f"Attention takes {first[3]:.1f} times as long as the MLP for {first[0]} tokens, and {last[3]:.1f} times for "
        f"{last[0]}: its time for a token grows, the MLP's stays. By MACs (multiplications, each with its addition) "
        f"the last would be {last[4]:.1f}.",
    )


def _weights(shape: tuple[int, int]) -> mx.array:
    return mx.random.normal(shape) / math.sqrt(shape[1])
