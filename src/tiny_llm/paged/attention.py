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
    raise NotImplementedError("3.4.1 Attention over pages")
