"""What shared key-value heads save, and what copying them costs."""

from functools import partial

import mlx.core as mx

from tiny_llm.attention import scaled_dot_product_attention_grouped
from tiny_llm_course.measuring.clock import Table, peak_memory, seconds

# What the book draws of the table.
CHART = ("bars", "", ("K and V: KiB per token", "shared: ms", "copied: slowdown"))

H, D = 16, 128  # Qwen3-0.6B's


def measure(quick: bool = False) -> Table:
    """Measure one new token attending to S others, as in every decode step."""
    keys = 64 if quick else 4096
    sharing = [H, H // 2, H // 4, H // 8]
    query = mx.random.normal((1, H, 1, D))
    shared, copied = [], []
    for kv_heads in sharing:
        key, value = (mx.random.normal((1, kv_heads, keys, D)) for _ in range(2))
        mx.eval(query, key, value)
        shared.append(partial(scaled_dot_product_attention_grouped, query, key, value))
        copied.append(partial(_copied, query, key, value))
    times = seconds(*shared, *copied)
    rows = []
    for i, kv_heads in enumerate(sharing):
        kept = 2 * kv_heads * D * 4 / 2**10  # a key and a value per head, 4 bytes per number
        more = (peak_memory(copied[i]) - peak_memory(shared[i])) / 2**20
        rows.append((kv_heads, kept, times[i] * 1e3, times[len(sharing) + i] / times[i], more))
    _, _, _, ratio, more = rows[-1]
    return Table(
        ("H_kv", "K and V: KiB per token", "shared: ms", "copied: slowdown", "copied: extra MiB"),
        tuple(rows),
        f"With {sharing[-1]} key-value heads for {H} query heads, K and V take {H // sharing[-1]} times less memory. "
        f"Copying them for each query head takes {ratio:.1f} times as long and {more:.0f} MiB more.",
    )


def _copied(query: mx.array, key: mx.array, value: mx.array) -> mx.array:
    """Run the same attention with one key-value head per query head."""
    copies = query.shape[1] // key.shape[1]
    return scaled_dot_product_attention_grouped(query, mx.repeat(key, copies, axis=1), mx.repeat(value, copies, axis=1))
