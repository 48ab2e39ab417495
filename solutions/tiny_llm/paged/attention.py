"""Attention that reads keys and values where they are: page by page, through a block table."""

import mlx.core as mx

from ..flash_attention.online_softmax import OnlineSoftmax


def paged_attention(
    query: mx.array, keys: mx.array, values: mx.array, table: list[int], tokens: int, scale: float | None = None
) -> mx.array:
    """Causal attention of a request's last L tokens, whose keys and values lie in pages that all requests share.

    Nothing is looked at but the request's own tokens: even a NaN in the rest of its last page, or in a page that is not
    its own, changes nothing. No array holds the keys, or values, of all its pages.

    Args:
        query: L x H x D, in a float dtype; L is at least 1. Query i is of token tokens - L + i, and sees the tokens up
            to itself. Query head h reads key-value head h // (H / H_kv).
        keys: pages x H_kv x page x D, query's dtype.
        values: as keys.
        table: the numbers of the request's pages, in order; there may be more than it fills. Token s is in the page
            table[s // page], at s % page.
        tokens: how many the request has, the L of query among them.
        scale: what the dot products are multiplied by; None means 1 / sqrt(D).

    Returns:
        L x H x D, in query's dtype; it is computed in float32. The arguments are not changed.

    Raises:
        ValueError: H is not a multiple of H_kv, L is more than tokens, or the pages of table have room for fewer.

    Source: Kwon et al. 2023, section 4.1.
    """
    length, heads, dims = query.shape
    _, kv_heads, page, _ = keys.shape
    if heads % kv_heads:
        raise ValueError(f"H = {heads} query heads cannot share H_kv = {kv_heads} key-value heads evenly")
    if length > tokens:
        raise ValueError(f"L = {length} queries are more than the {tokens} tokens that they are the last of")
    if tokens > len(table) * page:
        raise ValueError(f"{tokens} tokens need more than the table's {len(table)} pages of {page}")
    scale = dims**-0.5 if scale is None else scale
    queries = mx.unflatten(query.swapaxes(0, 1), 0, (kv_heads, -1)).astype(mx.float32) * scale  # H_kv x G x L x D
    last = mx.arange(tokens - length, tokens)[:, None]  # L x 1: the last token that each query sees
    running = OnlineSoftmax(*queries.shape)
    for first in range(0, tokens, page):
        number, count = table[first // page], min(page, tokens - first)
        some_keys, some_values = (x[number, :, None, :count] for x in (keys, values))  # H_kv x 1 x count x D
        scores = queries @ some_keys.astype(mx.float32).swapaxes(-1, -2)  # H_kv x G x L x count
        visible = mx.arange(first, first + count) <= last
        running.add(mx.where(visible, scores, -mx.inf), some_values)
        mx.eval(running.result())  # now: MLX would keep what it has made of every page until the end
    return running.result().flatten(0, 1).swapaxes(0, 1).astype(query.dtype)
