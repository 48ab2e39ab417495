"""One fused projection beside three, and the memory of attention that returns its weights."""

from functools import partial

import mlx.core as mx

from tiny_llm.basics import linear
from tiny_llm.fused_qkv.attention import attention_with_weights
from tiny_llm.fused_qkv.layouts import split_qkv
from tiny_llm_course.measuring.clock import Program, Table, peak_memory, seconds

# What the book draws of the table.
CHART = ("lines", "MiB at the peak", ("weights given: MiB", "not given: MiB"))

E, H, H_KV, D = 256, 6, 2, 64  # those of the model that comes with the course
CALLS = 128  # of a single token, so that a clock can measure them


def measure(quick: bool = False) -> Table:
    """L tokens are projected and split, by three weights and by one; then they attend."""
    lengths = [1, 8] if quick else [1, 16, 128, 512]
    wq, wk, wv = (mx.random.normal((heads * D, E)) for heads in (H, H_KV, H_KV))
    wqkv = mx.concatenate([wq, wk, wv])
    mx.eval(wq, wk, wv, wqkv)
    times = []
    for length in lengths:
        texts = [mx.random.normal((1, length, E)) for _ in range(max(1, CALLS // length))]
        mx.eval(texts)
        both = seconds(partial(_three, texts, wq, wk, wv), partial(_one, texts, wqkv))
        times.append([each / len(texts) for each in both])
    held = [[peak_memory(program) / 2**20 for program in _attending(length)] for length in lengths]
    rows = tuple(
        (length, three * 1e3, one * 1e3, three / one, weights, without)
        for length, (three, one), (weights, without) in zip(lengths, times, held, strict=True)
    )
    (_, _, _, first, _, _), *_, (length, _, _, last, weights, without) = rows
    return Table(
        ("tokens", "three weights: ms", "one: ms", "times as fast", "weights given: MiB", "not given: MiB"),
        rows,
        f"One weight in place of three is {first:.2f} times as fast for a single token and {last:.2f} times for "
        f"{length}. Attention of {length} tokens that gives its weights holds {weights:.0f} MiB, and MLX's own, which "
        f"does not, {without:.0f} MiB.",
    )


def _three(texts: list[mx.array], *weights: mx.array) -> list[mx.array]:
    """Queries, keys and values of each text, by a product of their own."""
    return [mx.unflatten(linear(x, w), -1, (-1, D)).swapaxes(1, 2) for x in texts for w in weights]


def _one(texts: list[mx.array], wqkv: mx.array) -> list[mx.array]:
    """The same by one product a text."""
    return [part for x in texts for part in split_qkv(linear(x, wqkv), H, H_KV)]


def _attending(length: int) -> list[Program]:
    """Attention that gives its weights, and MLX's own."""
    query, key, value = (mx.random.normal((1, heads, length, D)) for heads in (H, H_KV, H_KV))
    mx.eval(query, key, value)
    return [
        lambda: attention_with_weights(query, key, value, mask="causal"),
        lambda: mx.fast.scaled_dot_product_attention(query, key, value, scale=D**-0.5, mask="causal"),
    ]
