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
    length, keys = query.shape[-2], key.shape[-2]
    if length > keys:
        raise ValueError(f"L = {length} queries are more than S = {keys} keys, so the first would see nothing")
    if sinks < 0 or (window is not None and window < 1):
        raise ValueError(f"window is {window} and sinks {sinks}, but at least 1 and 0 are needed")
    before = keys - length  # tokens before the first query
    blocks = []
    for first in range(0, length, block_size):
        last = min(length, first + block_size)
        end = before + last  # one past the last query's own key
        begin = 0 if window is None else max(0, before + first - window + 1)
        some = _band(key, begin, end, sinks), _band(value, begin, end, sinks)  # N.. x H_kv x B x D
        # The sinks and a run of keys up to the last query: their mask is that of a sequence of only these keys.
        mask = window_mask(last - first, some[0].shape[-2], window, sinks, query.dtype)  # (last - first) x B
        blocks.append(scaled_dot_product_attention_grouped(query[..., first:last, :], *some, scale, mask))
        mx.eval(blocks[-1])
    return mx.concatenate(blocks, axis=-2)  # N.. x H x L x D


def _band(x: mx.array, begin: int, end: int, sinks: int) -> mx.array:
    """Return the sinks and the tokens from `begin` to `end`, each once."""
    if begin <= sinks:
        return x[..., :end, :]
    return mx.concatenate([x[..., :sinks, :], x[..., begin:end, :]], axis=-2)
