"""The vector-Jacobian product of attention."""

import mlx.core as mx

from ..attention import causal_mask
from ..basics import softmax


def attention_vjp(
    query: mx.array,
    key: mx.array,
    value: mx.array,
    dy: mx.array,
    scale: float | None = None,
    mask: mx.array | str | None = None,
) -> tuple[mx.array, mx.array, mx.array]:
    """Return the gradients of query, key and value for grouped-query attention, given dy, the gradient of its output y.

    y is softmax(query @ key.T * scale + mask) @ value. Query head h reads key-value head h // (H / H_kv), as in
    `scaled_dot_product_attention_grouped`. All of it is computed in float32 for all dtypes.

    Args:
        query: N.. x H x L x D.
        key: N.. x H_kv x S x D, query's dtype.
        value: N.. x H_kv x S x D, query's dtype.
        dy: N.. x H x L x D, the gradient of y, in query's dtype.
        scale: multiplies the dot products; None means 1 / sqrt(D).
        mask: None; "causal" (`causal_mask`); or an array that broadcasts to N.. x H x L x S: bool, True where a query
            sees a key, or of any float dtype, added to the scaled scores, where -inf hides a key.

    Returns:
        dquery, dkey and dvalue, in the shapes of query, key and value and in query's dtype. A key-value head gets the
        sum over the query heads that read it. A fully masked row adds nothing to any of them. The mask has no gradient.
        The arguments are not changed.

    Raises:
        ValueError: H is not a multiple of H_kv, or dy's shape is not query's. The message states both numbers or
            shapes.

    Source: Dao et al. 2022, appendix B.2; `mx.vjp` of `mx.fast.scaled_dot_product_attention`.
    """
    heads, kv_heads = query.shape[-3], key.shape[-3]
    if heads % kv_heads:
        raise ValueError(f"H = {heads} query heads cannot share H_kv = {kv_heads} key-value heads evenly")
    if dy.shape != query.shape:
        raise ValueError(f"dy has shape {dy.shape}, but {query.shape} is needed")
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    q, dheads = (mx.unflatten(a.astype(mx.float32), -3, (kv_heads, -1)) for a in (query, dy))  # N.. x H_kv x G x L x D
    k, v = (a.astype(mx.float32)[..., None, :, :] for a in (key, value))  # N.. x H_kv x 1 x S x D
    # Forward once more: the weights were not stored.
    weights = _weights((q @ k.swapaxes(-1, -2)) * scale, mask)  # N.. x H_kv x G x L x S
    # y = weights @ v, a matrix product: one gradient for each factor.
    dvalue = mx.sum(weights.swapaxes(-1, -2) @ dheads, axis=-3)  # N.. x H_kv x S x D, summed over the group
    dweights = dheads @ v.swapaxes(-1, -2)  # N.. x H_kv x G x L x S
    # The softmax: raising one score lowers all other weights of its row.
    dscores = weights * (dweights - mx.sum(weights * dweights, axis=-1, keepdims=True)) * scale
    dquery = (dscores @ k).flatten(-4, -3)  # N.. x H x L x D
    dkey = mx.sum(dscores.swapaxes(-1, -2) @ q, axis=-3)  # N.. x H_kv x S x D
    return dquery.astype(query.dtype), dkey.astype(query.dtype), dvalue.astype(query.dtype)


def _weights(scores: mx.array, mask: mx.array | str | None) -> mx.array:
    """Return the softmax of N.. x H_kv x G x L x S masked scores; zeros for fully masked rows."""
    *leading, kv_heads, group, length, keys = scores.shape
    if isinstance(mask, str):
        mask = causal_mask(length, keys, mx.float32)
    if mask is not None:
        mask = mx.broadcast_to(mask, (*leading, kv_heads * group, length, keys))
        mask = mx.unflatten(mask, -3, (kv_heads, group))
        scores = mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores + mask
    masked = mx.max(scores, axis=-1, keepdims=True) == -mx.inf  # fully masked rows
    return mx.where(masked, 0.0, softmax(mx.where(masked, 0.0, scores), axis=-1))
