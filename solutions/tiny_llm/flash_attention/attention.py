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
    *leading, heads, length, dims = query.shape
    kv_heads, keys = key.shape[-3:-1]
    if heads % kv_heads:
        raise ValueError(f"H = {heads} query heads cannot share H_kv = {kv_heads} key-value heads evenly")
    if isinstance(mask, str) and mask != "causal":
        raise ValueError(f'mask is {mask!r}, but the only mask with a name is "causal"')
    causal, before = isinstance(mask, str), keys - length
    if causal and before < 0:
        raise ValueError(f"L = {length} queries are more than S = {keys} keys, so the first would see nothing")
    scale = dims**-0.5 if scale is None else scale
    query = mx.unflatten(query, -3, (kv_heads, -1))  # N.. x H_kv x H/H_kv x L x D
    key, value = key[..., None, :, :], value[..., None, :, :]  # N.. x H_kv x 1 x S x D
    if isinstance(mask, mx.array):
        mask = mx.broadcast_to(mask, (*leading, heads, length, keys))  # a view: nothing is copied
        mask = mx.unflatten(mask, -3, (kv_heads, -1))
    blocks = []
    for first in range(0, length, block):
        last = min(length, first + block)
        queries = query[..., first:last, :].astype(mx.float32) * scale  # N.. x H_kv x H/H_kv x (last - first) x D
        running = OnlineSoftmax(*queries.shape)
        end = before + last if causal else keys  # the first key hidden from all queries of the block
        for begin in range(0, end, block):
            some = slice(begin, min(end, begin + block))
            scores = queries @ key[..., some, :].astype(mx.float32).swapaxes(-1, -2)
            if isinstance(mask, mx.array):
                scores = scores + mask[..., first:last, some]
            elif causal and some.stop > before + first + 1:  # some query of the block does not see all of them
                seen = mx.arange(before + first, before + last)[:, None]  # the last key of each query
                scores = mx.where(mx.arange(some.start, some.stop) <= seen, scores, -mx.inf)
            running.add(scores, value[..., some, :])
            mx.eval(running.result())  # so that the scores can be freed
        blocks.append(running.result().astype(value.dtype))
    return mx.concatenate(blocks, axis=-2).flatten(-4, -3)  # N.. x H x L x D
