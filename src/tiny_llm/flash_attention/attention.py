"""Attention without the table of all scores: blocks of queries meet blocks of keys."""

import mlx.core as mx

from .online_softmax import OnlineSoftmax


def flash_attention(
    query: mx.array,
    key: mx.array,
    value: mx.array,
    scale: float | None = None,
    mask: mx.array | str | None = None,
    block: int = 128,
) -> mx.array:
    """What `scaled_dot_product_attention_grouped` computes, with no more than block x block scores of a head at a time.

    With "causal", keys that stand behind the last query of a block are not looked at: even a NaN there changes nothing.

    Args:
        query: N.. x H x L x D.
        key: N.. x H_kv x S x D, query's dtype. Query head h reads key-value head h // (H / H_kv).
        value: N.. x H_kv x S x D, query's dtype.
        scale: what the dot products are multiplied by; None means 1 / sqrt(D).
        mask: None; "causal": query i sees the keys 0 to i + S - L; or an array, which is added to the scaled scores and
            broadcasts to N.. x H x L x S, of any float dtype. -inf hides a key.
        block: how many queries, and how many keys, are in a block; the last ones may have fewer.

    Returns:
        N.. x H x L x D, in query's dtype; zeros for a query from which every key is hidden. The arguments are not
        changed. It is computed when it is returned: MLX would otherwise keep all blocks waiting.

    Raises:
        ValueError: H is not a multiple of H_kv, mask is another string than "causal", or it is "causal" and L > S.

    Source: Dao et al. 2022; `mx.fast.scaled_dot_product_attention`.
    """
    raise NotImplementedError("2.7.2 Attention in blocks")
