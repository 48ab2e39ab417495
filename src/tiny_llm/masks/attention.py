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
    raise NotImplementedError("4.1.2 Masked attention")
