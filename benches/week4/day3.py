"""Cost of the next token as the sequence grows: all keys, or a window of 512 with four sinks."""

from collections.abc import Callable

import mlx.core as mx

from tiny_llm.attention import scaled_dot_product_attention_grouped
from tiny_llm.local_attention.blocks import windowed_attention
from tiny_llm.local_attention.cache import RollingCache
from tiny_llm.local_attention.masks import window_mask
from tiny_llm.qwen3_cached.cache import KVCache
from tiny_llm_course.measuring.clock import Cell, Table, seconds

# What the book draws of the table.
CHART = ("lines", "ms per token", ("all keys: ms", "window: ms"))

H, H_KV, D = 8, 4, 64
WINDOW, SINKS, BLOCK = 512, 4, 64
STEPS = 8  # per run, so that it is long enough to time
DENSE = 2048  # tokens; the masked form grows with their square


def measure(quick: bool = False) -> Table:
    """Measure one layer's attention for one token after T others, and for a prefill of T."""
    lengths = [64, 128] if quick else [1024, 2048, 4096, 8192]
    dense, rolled = [KVCache() for _ in lengths], [RollingCache(WINDOW, SINKS) for _ in lengths]
    pairs = list(zip(dense, rolled, lengths, strict=True))
    held = [(_held(one, length) / 2**20, _held(other, length) / 2**20) for one, other, length in pairs]
    decode = [1e3 * each / STEPS for each in seconds(*map(_steps, dense), *map(_steps, rolled))]
    every, window = decode[: len(lengths)], decode[len(lengths) :]
    prefills = [_prefill(length) for length in lengths]
    rows = tuple(zip(lengths, every, window, *zip(*held, strict=True), *zip(*prefills, strict=True), strict=True))
    return Table(
        (
            "tokens",
            "all keys: ms",
            "window: ms",
            "all keys: MiB",
            "window: MiB",
            "prefill, masked: ms",
            "prefill, blocked: ms",
            "blocks read: %",
        ),
        rows,
        f"After {lengths[-1]:,} tokens, the next one takes {every[-1] / every[0]:.1f} times as long as after "
        f"{lengths[0]:,} with all keys and {window[-1] / window[0]:.2f} times as long with a window, whose cache has a "
        "fixed size.",
    )


def _held(cache: KVCache | RollingCache, length: int) -> int:
    """Return the bytes of a cache after `length` tokens, appended 64 at a time."""
    mx.synchronize()
    before = mx.get_active_memory()
    for _ in range(0, length, 64):
        mx.eval(cache.update_and_fetch(*[mx.random.normal((1, H_KV, 64, D))] * 2))
    mx.synchronize()
    return mx.get_active_memory() - before


def _steps(cache: KVCache | RollingCache) -> Callable[[], object]:
    """Return STEPS decode steps that attend to what the cache returns; a KVCache is then rolled back."""
    query, key, value = (mx.random.normal((1, heads, 1, D)) for heads in (H, H_KV, H_KV))
    mx.eval(query, key, value)

    def run() -> None:
        for _ in range(STEPS):
            mx.eval(scaled_dot_product_attention_grouped(query, *cache.update_and_fetch(key, value)))
        if isinstance(cache, KVCache):
            cache.rewind(STEPS)

    return run


def _prefill(length: int) -> tuple[Cell, Cell, Cell]:
    """Return the ms of windowed prefill, masked and blocked, and the percentage of blocks read."""
    if length > DENSE:
        return ("not measured",) * 3
    query, key, value = (mx.random.normal((heads, length, D)) for heads in (2, 1, 1))
    mask = window_mask(length, length, WINDOW, SINKS)
    mx.eval(query, key, value, mask)
    masked, blocks = seconds(
        lambda: scaled_dot_product_attention_grouped(query, key, value, mask=mask),
        lambda: windowed_attention(query, key, value, WINDOW, SINKS, block_size=BLOCK),
    )
    return 1e3 * masked, 1e3 * blocks, _touched(length)


def _touched(length: int) -> float:
    """Return the percentage of (query block, key block) pairs that are read.

    A NaN in a block of keys propagates to each block of queries that reads it.
    """
    count = length // BLOCK
    poison = mx.where(mx.repeat(mx.eye(count), BLOCK, axis=1) == 1, mx.nan, 0.0)  # blocks of keys x keys
    query, key = mx.zeros((count, 1, length, 1)), poison[:, None, :, None]
    seen = mx.isnan(windowed_attention(query, key, key, WINDOW, SINKS, block_size=BLOCK))
    touched = mx.any(mx.unflatten(seen[:, 0, :, 0], 1, (count, BLOCK)), axis=-1)
    return 100 * float(mx.mean(touched.astype(mx.float32)))
