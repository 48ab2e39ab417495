"""Time and memory of attention as the sequence grows."""

from functools import partial

import mlx.core as mx

from tiny_llm.attention import scaled_dot_product_attention_simple
from tiny_llm_course.measuring.clock import Table, on_cpu, peak_memory, seconds

# What the book draws of the table.
CHART = ("lines", "time in ms, memory in MiB", ("ms", "MiB", "MLX: MiB"))

D = 64


def measure(quick: bool = False) -> Table:
    """Measure self-attention over L tokens as L doubles, beside MLX's own operator."""
    lengths = [16, 32] if quick else [256, 512, 1024, 2048]
    heads = 1 if on_cpu() else 16  # with less work, a GPU would measure launch overhead
    scale = D**-0.5
    mine, mlx = [], []
    for length in lengths:
        query, key, value = (mx.random.normal((heads, length, D)) for _ in range(3))
        mx.eval(query, key, value)
        mine.append(partial(scaled_dot_product_attention_simple, query, key, value))
        batch = (query[None], key[None], value[None])
        mlx.append(partial(mx.fast.scaled_dot_product_attention, *batch, scale=scale))
    times = seconds(*mine, *mlx)
    my_times, mlx_times = times[: len(lengths)], times[len(lengths) :]
    memory, mlx_memory = list(map(peak_memory, mine)), list(map(peak_memory, mlx))
    rows = []
    for i, length in enumerate(lengths):
        growth = my_times[i] / my_times[i - 1] if i else "-"
        rows.append((length, my_times[i] * 1e3, growth, memory[i] / 2**20, mlx_times[i] * 1e3, mlx_memory[i] / 2**20))
    return Table(
        ("L", "ms", "ratio to row above", "MiB", "MLX: ms", "MLX: MiB"),
        tuple(rows),
        f"The last doubling of L takes {my_times[-1] / my_times[-2]:.1f} times as long and "
        f"{memory[-1] / memory[-2]:.1f} times the memory, because there are L x L scores.",
    )
