"""What one projection is worth in place of three, and what attention holds that gives its weights."""

from functools import partial

import mlx.core as mx

from tiny_llm.basics import linear
from tiny_llm.fused_qkv.attention import attention_with_weights
from tiny_llm.fused_qkv.layouts import split_qkv
from tiny_llm_course.measuring.clock import Program, Table, peak_memory, seconds

# What the book draws of the table.
CHART = ("lines", "MiB at the peak", ("weights given: MiB", "not given: MiB"))

E, H, H_KV, D = 1024, 16, 8, 128  # Qwen3-0.6B's


def measure(quick: bool = False) -> Table:
    """L tokens are projected and split, by three weights and by one; then they attend."""
    lengths = [1, 8] if quick else [1, 16, 128, 512]
    wq, wk, wv = (mx.random.normal((heads * D, E)) for heads in (H, H_KV, H_KV))
    wqkv = mx.concatenate([wq, wk, wv])
    mx.eval(wq, wk, wv, wqkv)
    texts = [mx.random.normal((1, length, E)) for length in lengths]
    mx.eval(texts)
    times = [seconds(partial(_three, x, wq, wk, wv), partial(_one, x, wqkv)) for x in texts]
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


def _three(x: mx.array, *weights: mx.array) -> list[mx.array]:
    """Queries, keys and values, each by a product of its own."""
    return [mx.unflatten(linear(x, w), -1, (-1, D)).swapaxes(1, 2) for w in weights]


def _one(x: mx.array, wqkv: mx.array) -> tuple[mx.array, ...]:
    """The same by one product."""
    return split_qkv(linear(x, wqkv), H, H_KV)


def _attending(length: int) -> list[Program]:
    """Attention that gives its weights, and MLX's own."""
    query, key, value = (mx.random.normal((1, heads, length, D)) for heads in (H, H_KV, H_KV))
    mx.eval(query, key, value)
    return [
        lambda: attention_with_weights(query, key, value, mask="causal"),
        lambda: mx.fast.scaled_dot_product_attention(query, key, value, scale=D**-0.5, mask="causal"),
    ]
