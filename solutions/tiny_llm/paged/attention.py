"""Attention that reads keys and values in place, page by page, through a block table."""

import mlx.core as mx

from ..flash_attention.online_softmax import OnlineSoftmax


def paged_attention(
    query: mx.array, keys: mx.array, values: mx.array, block_table: list[int], tokens: int, scale: float | None = None
) -> mx.array:
    """Compute causal attention of a request's last L tokens over its pages in a shared pool.

    Only the request's own tokens are read: a NaN in the rest of its last page, or in a page that is not its own,
    changes nothing. No array holds the keys, or values, of all its pages, and the pages are evaluated one by one: MLX's
    graph of pending operations does not grow with their number.

    Args:
        query: L x H x D, in a float dtype; L is at least 1. Query i is that of token tokens - L + i, and attends to the
            tokens up to and including it. Query head h reads key-value head h // (H / H_kv).
        keys: pages x H_kv x page x D, query's dtype.
        values: as keys.
        block_table: the numbers of the request's pages, in order; there may be more than its tokens fill. Token s is in
            the page block_table[s // page], at offset s % page.
        tokens: how many the request has, the L of query among them.
        scale: what the dot products are multiplied by; None means 1 / sqrt(D).

    Returns:
        L x H x D, in query's dtype; computed in float32. The arguments are not modified.

    Raises:
        ValueError: H is not a multiple of H_kv, L is more than tokens, the pages of block_table hold fewer tokens, or a
            page of the tokens is not from 0 to pages - 1 or occurs twice, and then the message names it.

    Source: Kwon et al. 2023, section 4.1.
    """
    length, heads, dims = query.shape
    pages, kv_heads, page, _ = keys.shape
    if heads % kv_heads:
        raise ValueError(f"H = {heads} query heads cannot share H_kv = {kv_heads} key-value heads evenly")
    if length > tokens:
        raise ValueError(f"L = {length} queries, but only {tokens} tokens: the queries are those of the last ones")
    if tokens > len(block_table) * page:
        raise ValueError(f"{tokens} tokens need more than the table's {len(block_table)} pages of {page}")
    own = block_table[: -(-tokens // page)]
    if unknown := [number for number in own if not 0 <= number < pages]:
        raise ValueError(f"page {unknown[0]} of the block table is not one of the pool's, 0 to {pages - 1}")
    if len(set(own)) < len(own):
        raise ValueError(f"the block table {own} has a page twice")
    scale = dims**-0.5 if scale is None else scale
    queries = mx.unflatten(query.swapaxes(0, 1), 0, (kv_heads, -1)).astype(mx.float32) * scale  # H_kv x G x L x D
    last = mx.arange(tokens - length, tokens)[:, None]  # L x 1: the last token that each query attends to
    running = OnlineSoftmax(*queries.shape)
    for first in range(0, tokens, page):
        number, count = block_table[first // page], min(page, tokens - first)
        some_keys, some_values = (x[number, :, None, :count] for x in (keys, values))  # H_kv x 1 x count x D
        scores = queries @ some_keys.astype(mx.float32).swapaxes(-1, -2)  # H_kv x G x L x count
        visible = mx.arange(first, first + count) <= last
        running.add(mx.where(visible, scores, -mx.inf), some_values)
        mx.eval(running.result())  # otherwise MLX's graph would grow by some twenty operations for each page
    return running.result().flatten(0, 1).swapaxes(0, 1).astype(query.dtype)
