"""Flash attention: tiles of queries against tiles of keys, without the full score matrix."""

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
    """Compute `scaled_dot_product_attention_grouped` with at most block x block scores per head at a time.

    MLX is lazy, so evaluate after each block of keys: otherwise, the scores of many blocks may be in memory at once.
    With "causal", keys after the last query of a block are never read: even a NaN there changes nothing.

    Args:
        query: N.. x H x L x D.
        key: N.. x H_kv x S x D, query's dtype. Query head h reads key-value head h // (H / H_kv).
        value: N.. x H_kv x S x D, query's dtype.
        scale: multiplies the dot products; None means 1 / sqrt(D).
        mask: None; "causal": query i sees the keys 0 to i + S - L, both counted from the first one, not from that of a
            block; or an array of any float dtype, which is added to the scaled scores and broadcasts to
            N.. x H x L x S. -inf hides a key.
        block: queries, and keys, per block; the last block may have fewer.

    Returns:
        N.. x H x L x D, in query's dtype; zeros for a fully masked row. The arguments are not changed.

    Raises:
        ValueError: H is not a multiple of H_kv, mask is another string than "causal", or it is "causal" and L > S.

    Source: Dao et al. 2022; `mx.fast.scaled_dot_product_attention`.
    """
    raise NotImplementedError("2.7.2 Attention in blocks")
