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
    raise NotImplementedError("5.3.5 The gradients of attention")
