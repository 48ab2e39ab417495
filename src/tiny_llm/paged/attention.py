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
    raise NotImplementedError("3.4.1 Attention over pages")
