"""Attention with boolean or additive masks, fully masked rows included."""

import mlx.core as mx

from ..basics import softmax


def masked_attention(
    query: mx.array,
    key: mx.array,
    value: mx.array,
    mask: mx.array | None = None,
    scale: float | None = None,
) -> mx.array:
    """Compute `scaled_dot_product_attention_simple` with either kind of mask; fully masked rows give zeros.

    Args:
        query: N.. x L x D, any number of leading dimensions, including none.
        key: N.. x S x D, query's dtype. S may be less than L, or more.
        value: N.. x S x D, query's dtype.
        mask: broadcasts to N.. x L x S, and has no more axes than that. Bool: True where a query sees a key. Float, of
            any float dtype: added to the scaled scores, and -inf hides a key. Its values may exceed the range of
            query's dtype.
        scale: multiplies the dot products; None means 1 / sqrt(D).

    Returns:
        N.. x L x D, in query's dtype; zeros for a fully masked row. A large negative number is not a mask: if all keys
        have -1e5, softmax still weights them by their scores. The arguments are not changed.

    Raises:
        ValueError: mask is neither bool nor float, or its shape does not broadcast to N.. x L x S.

    Source: Vaswani et al. 2017, section 3.2; `torch.nn.functional.scaled_dot_product_attention`.
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query @ key.swapaxes(-1, -2)) * scale  # N.. x L x S
    if mask is not None:
        scores = _masked(scores, mask)
    masked = mx.max(scores, axis=-1, keepdims=True) == -mx.inf  # N.. x L x 1: fully masked rows
    weights = softmax(mx.where(masked, 0.0, scores), axis=-1)  # -inf - -inf would be NaN: any number works for them
    return mx.where(masked, 0.0, weights).astype(value.dtype) @ value  # N.. x L x D


def _masked(scores: mx.array, mask: mx.array) -> mx.array:
    """Apply a mask of either kind to the scores."""
    if mask.dtype != mx.bool_ and not mx.issubdtype(mask.dtype, mx.floating):
        raise ValueError(f"mask has dtype {mask.dtype}, but bool or a float dtype is needed")
    ends = scores.shape[scores.ndim - mask.ndim :] if mask.ndim <= scores.ndim else ()
    if len(ends) != mask.ndim or any(size not in (1, whole) for size, whole in zip(mask.shape, ends, strict=True)):
        raise ValueError(f"mask has shape {mask.shape}, which does not broadcast to {scores.shape}")
    if mask.dtype == mx.bool_:
        return mx.where(mask, scores, -mx.inf)
    return scores + mask  # in the wider of the two dtypes: in float16, a bias of -100,000 would be -inf
