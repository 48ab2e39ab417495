"""Attention in which any key may be hidden from any query, also all of them."""

import mlx.core as mx

from ..basics import softmax


def masked_attention(
    query: mx.array,
    key: mx.array,
    value: mx.array,
    mask: mx.array | None = None,
    scale: float | None = None,
) -> mx.array:
    """What `scaled_dot_product_attention_simple` computes, with masks of either kind, and zeros where nothing is seen.

    Args:
        query: N.. x L x D, any number of leading dimensions, also none.
        key: N.. x S x D, query's dtype. S may be less than L, or more.
        value: N.. x S x D, query's dtype.
        mask: broadcasts to N.. x L x S, and has no more axes than that. Bool: True where a query may look at a key.
            Float, of any float dtype, also with numbers that query's dtype cannot hold: added to the scaled scores, and
            -inf hides a key.
        scale: what the dot products are multiplied by; None means 1 / sqrt(D).

    Returns:
        N.. x L x D, in query's dtype; zeros for a query from which every key is hidden. A large negative number hides
        nothing for certain: of keys that all have -1e5, the nearest is read most. The arguments are not changed.

    Raises:
        ValueError: mask is neither bool nor float, or its shape does not broadcast to N.. x L x S.

    Source: Vaswani et al. 2017, section 3.2; `torch.nn.functional.scaled_dot_product_attention`.
    """
    raise NotImplementedError("4.1.2 Masked attention")
