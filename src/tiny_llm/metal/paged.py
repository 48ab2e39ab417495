"""Paged attention by a Metal kernel."""

import mlx.core as mx

from .attention import MOST, QUERIES, THREADS
from .device import Launch, launch


def paged_attention(
    query: mx.array, keys: mx.array, values: mx.array, block_table: list[int], tokens: int, scale: float | None = None
) -> mx.array:
    """Compute `paged.attention.paged_attention` by the kernel `paged_attention.metal`.

    Args:
        query: L x H x D, in a float dtype, D at most 128.
        keys: pages x H_kv x page x D, query's dtype. Query head h reads key-value head h // (H / H_kv).
        values: as keys.
        block_table: the request's pages, in order. Token s is in page block_table[s // page], at s % page.
        tokens: the request's tokens, the L of query included.
        scale: multiplies the dot products; None means 1 / sqrt(D).

    Returns:
        L x H x D, in query's dtype, computed in float32.

    Raises:
        ValueError: an argument is not as above, or block_table has too few pages for the tokens. The message says what
            is needed.

    Source: Kwon et al. 2023, section 4.1.
    """
    length, heads, dims = query.shape
    pages, kv_heads, page, _ = keys.shape
    if keys.shape != (pages, kv_heads, page, dims) or heads % max(kv_heads, 1):
        raise ValueError(
            f"keys are {keys.shape}, but {('pages', 'H_kv', 'page', dims)} is needed, H_kv a divisor of {heads}"
        )
    for name, each in (("keys", keys), ("values", values)):
        if (each.shape, each.dtype) != (keys.shape, query.dtype):
            raise ValueError(f"{name} are {each.shape} {each.dtype}, but {keys.shape} {query.dtype} is needed")
    if dims > MOST:
        raise ValueError(f"D = {dims}, but {MOST} at most is needed")
    if not length <= tokens <= len(block_table) * page:
        raise ValueError(f"{tokens} tokens, but {length} at least and {len(block_table) * page} at most are needed")
    own = block_table[: -(-tokens // page)]
    if any(not 0 <= number < pages for number in own) or len(set(own)) < len(own):
        raise ValueError(f"block_table is {block_table}, but different numbers from 0 to {pages - 1} are needed")
    inputs = {
        "query": query,
        "keys": keys,
        "values": values,
        "table": mx.array(block_table, mx.int32),
        "tokens": mx.array([tokens], mx.int32),
        "scale": mx.array([dims**-0.5 if scale is None else scale], mx.float32),
    }
    work = Launch(
        inputs,
        {"out": (query.shape, query.dtype)},
        (-(-length // QUERIES) * THREADS, heads, 1),
        (THREADS, 1, 1),
        {"T": query.dtype},
    )
    return launch("paged_attention", work)[0]
