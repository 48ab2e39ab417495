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
CHART = ("lines", "ms for one token", ("all keys: ms", "window: ms"))

H, H_KV, D = 8, 4, 64
WINDOW, SINKS, BLOCK = 512, 4, 64
STEPS = 8  # in each run, so that the clock has something to measure
DENSE = 2048  # tokens; all pairs take four times as long for twice as many


def measure(quick: bool = False) -> Table:
    """One layer's attention for one token after T others, and for a whole text of T."""
    lengths = [64, 128] if quick else [1024, 2048, 4096, 8192]
    dense, rolled = [KVCache() for _ in lengths], [RollingCache(WINDOW, SINKS) for _ in lengths]
    pairs = list(zip(dense, rolled, lengths, strict=True))
    held = [(_held(one, length) / 2**20, _held(other, length) / 2**20) for one, other, length in pairs]
    decode = [1e3 * each / STEPS for each in seconds(*map(_steps, dense), *map(_steps, rolled))]
    every, window = decode[: len(lengths)], decode[len(lengths) :]
    texts = [_text(length) for length in lengths]
    rows = tuple(zip(lengths, every, window, *zip(*held, strict=True), *zip(*texts, strict=True), strict=True))
    return Table(
        (
            "tokens",
            "all keys: ms",
            "window: ms",
            "all keys: MiB",
            "window: MiB",
            "text, masked: ms",
            "text, in blocks: ms",
            "touched: %",
        ),
        rows,
        f"After {lengths[-1]:,} tokens the next takes {every[-1] / every[0]:.1f} times as long as after {lengths[0]:,} "
        f"with all keys, and {window[-1] / window[0]:.2f} times as long with a window, which holds as much as before.",
    )


def _held(cache: KVCache | RollingCache, length: int) -> int:
    """The bytes that a cache holds after so many tokens, 64 at a time."""
    mx.synchronize()
    before = mx.get_active_memory()
    for _ in range(0, length, 64):
        mx.eval(cache.update_and_fetch(*[mx.random.normal((1, H_KV, 64, D))] * 2))
    mx.synchronize()
    return mx.get_active_memory() - before


def _steps(cache: KVCache | RollingCache) -> Callable[[], object]:
    """Some tokens, one after the other, each of which attends to what the cache gives; KVCache forgets them again."""
    query, key, value = (mx.random.normal((1, heads, 1, D)) for heads in (H, H_KV, H_KV))
    mx.eval(query, key, value)

    def run() -> None:
        for _ in range(STEPS):
            mx.eval(scaled_dot_product_attention_grouped(query, *cache.update_and_fetch(key, value)))
        if isinstance(cache, KVCache):
            cache.rewind(STEPS)

    return run


def _text(length: int) -> tuple[Cell, Cell, Cell]:
    """A whole text of two heads through the window: the ms of the dense form, those of blocks, and what is touched."""
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
    """How many of all pairs of a block of queries and a block of keys are touched, in percent.

    They are counted: a NaN in a block of keys shows in each block of queries that looks at it.
    """
    count = length // BLOCK
    poison = mx.where(mx.repeat(mx.eye(count), BLOCK, axis=1) == 1, mx.nan, 0.0)  # blocks of keys x keys
    query, key = mx.zeros((count, 1, length, 1)), poison[:, None, :, None]
    seen = mx.isnan(windowed_attention(query, key, key, WINDOW, SINKS, block_size=BLOCK))
    touched = mx.any(mx.unflatten(seen[:, 0, :, 0], 1, (count, BLOCK)), axis=-1)
    return 100 * float(mx.mean(touched.astype(mx.float32)))
