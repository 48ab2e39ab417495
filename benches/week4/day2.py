"""One fused projection beside three, and the memory of attention that returns its weights."""

from functools import partial

import mlx.core as mx

from tiny_llm.basics import linear
from tiny_llm.fused_qkv.attention import attention_with_weights
from tiny_llm.fused_qkv.layouts import split_qkv
from tiny_llm_course.measuring.clock import Program, Table, peak_memory, seconds

# What the book draws of the table.
CHART = ("lines", "speed-up, MiB at the peak", ("speed-up", "yours: MiB", "MLX's: MiB"))

E, H, H_KV, D = 256, 6, 2, 64  # the embedded model's
CALLS = 128  # single-token calls per run, so that it is long enough to time


def measure(quick: bool = False) -> Table:
    """Measure the projections of L tokens, separate and fused, and the peak memory of attention."""
    lengths = [1, 8] if quick else [1, 16, 128, 512]
    wq, wk, wv = (mx.random.normal((heads * D, E)) for heads in (H, H_KV, H_KV))
    wqkv = mx.concatenate([wq, wk, wv])
    mx.eval(wq, wk, wv, wqkv)
    times = []
    for length in lengths:
        inputs = [mx.random.normal((1, length, E)) for _ in range(max(1, CALLS // length))]
        mx.eval(inputs)
        both = seconds(partial(_separate, inputs, wq, wk, wv), partial(_fused, inputs, wqkv))
        times.append([each / len(inputs) for each in both])
    held = [[peak_memory(program) / 2**20 for program in _attending(length)] for length in lengths]
    rows = tuple(
        (length, three * 1e3, one * 1e3, three / one, weights, without)
        for length, (three, one), (weights, without) in zip(lengths, times, held, strict=True)
    )
    (_, _, _, first, _, _), *_, (length, _, _, last, weights, without) = rows
    return Table(
        ("tokens", "separate: ms", "fused: ms", "speed-up", "yours: MiB", "MLX's: MiB"),
        rows,
        f"One fused projection is {first:.2f} times as fast as three for a single token and {last:.2f} times as fast "
        f"for {length} tokens. Over {length} tokens, attention that returns its weights peaks at {weights:.0f} MiB, "
        f"MLX's own operator at {without:.0f} MiB.",
    )


def _separate(inputs: list[mx.array], *weights: mx.array) -> list[mx.array]:
    """Return queries, keys and values of each input, from three products."""
    return [mx.unflatten(linear(x, w), -1, (-1, D)).swapaxes(1, 2) for x in inputs for w in weights]


def _fused(inputs: list[mx.array], wqkv: mx.array) -> list[mx.array]:
    """Return the same from one product per input."""
    return [part for x in inputs for part in split_qkv(linear(x, wqkv), H, H_KV)]


def _attending(length: int) -> list[Program]:
    """Return attention that returns its weights, and MLX's own operator, which does not."""
    query, key, value = (mx.random.normal((1, heads, length, D)) for heads in (H, H_KV, H_KV))
    mx.eval(query, key, value)
    return [
        lambda: attention_with_weights(query, key, value, mask="causal"),
        lambda: mx.fast.scaled_dot_product_attention(query, key, value, scale=D**-0.5, mask="causal"),
    ]
