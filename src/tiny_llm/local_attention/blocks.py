"""Sliding-window attention in blocks: only the scores inside the window are computed."""

import mlx.core as mx

from ..attention import scaled_dot_product_attention_grouped
from .masks import window_mask


def windowed_attention(
    query: mx.array,
    key: mx.array,
    value: mx.array,
    window: int | None,
    sinks: int = 0,
    scale: float | None = None,
    block_size: int = 64,
) -> mx.array:
    """Compute `scaled_dot_product_attention_grouped` with `window_mask`, one block of queries at a time.

    A key that is hidden from all queries of a block is not read for that block: even a NaN there changes nothing.

    Args:
        query: N.. x H x L x D. The queries are the last L of S positions: query i is at position S - L + i.
        key: N.. x H_kv x S x D, query's dtype. Query head h reads key-value head h // (H / H_kv).
        value: N.. x H_kv x S x D, query's dtype.
        window: W, the number of keys a query sees in addition to the sinks, its own included; None means all up to its
            own.
        sinks: the number of first keys that every later query sees.
        scale: multiplies the dot products; None means 1 / sqrt(D).
        block_size: queries per block, counted from the first one; the last block may have fewer.

    Returns:
        N.. x H x L x D, in query's dtype. The arguments are not changed. Each block is evaluated before the next one
        begins: otherwise, MLX's graph would hold all blocks' scores at once.

    Raises:
        ValueError: L > S, window is less than 1, or sinks is less than 0. The message states the numbers.

    Source: Beltagy et al. 2020, section 3; `mx.fast.scaled_dot_product_attention` with the mask as an array.
    """
    raise NotImplementedError("4.3.3 Skipping tiles outside the window")
