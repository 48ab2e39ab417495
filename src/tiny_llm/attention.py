"""Attention: each query position gets a weighted average of the values."""

import mlx.core as mx

from .basics import linear, softmax


def scaled_dot_product_attention_simple(
    query: mx.array,
    key: mx.array,
    value: mx.array,
    scale: float | None = None,
    mask: mx.array | None = None,
) -> mx.array:
    """Compare each query with each key, and average the values by how well they match.

    softmax(query @ key.T * scale + mask) @ value, the softmax over the keys.

    Args:
        query: N.. x L x D, any number of leading dimensions, including none.
        key: N.. x S x D, query's dtype.
        value: N.. x S x D, query's dtype.
        scale: multiplies the dot products; None means 1 / sqrt(D).
        mask: added to the scaled scores; broadcasts to N.. x L x S, of any float dtype. Its values may exceed the range
            of query's dtype. -inf hides a key; every query keeps at least one.

    Returns:
        N.. x L x D, in query's dtype. The arguments are not changed.

    Source: Vaswani et al. 2017, section 3.2.1; `mx.fast.scaled_dot_product_attention`.
    """
    raise NotImplementedError("1.1.2 Scaled dot-product attention")


class SimpleMultiHeadAttention:
    """Several attentions side by side, each on its own slice of the projected features.

    Letters: N batch, L query length, S key length, E hidden size, H heads, D head dimension. H * D may differ from E.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        wq: mx.array,
        wk: mx.array,
        wv: mx.array,
        wo: mx.array,
    ) -> None:
        """Store the four weight matrices, laid out as `linear` takes them. D is the number of wq's rows divided by H.

        Args:
            hidden_size: E, the size of one token's vector.
            num_heads: H.
            wq: (H * D) x E.
            wk: (H * D) x E.
            wv: (H * D) x E.
            wo: E x (H * D).

        All four have the dtype of the queries, keys and values.

        Raises:
            ValueError: wq's rows are not a multiple of num_heads, or a weight's shape is not as above. The message
                names the weight and states wq's rows, or the weight's shape and the one needed.
        """
        raise NotImplementedError("1.1.4 Multi-head attention")

    def __call__(
        self,
        query: mx.array,
        key: mx.array,
        value: mx.array,
        mask: mx.array | None = None,
    ) -> mx.array:
        """Project, split into heads, attend in each head, join the heads, project back.

        Args:
            query: N x L x E.
            key: N x S x E.
            value: N x S x E.
            mask: added to the scaled scores of every head; broadcasts to N x H x L x S, of any float dtype.

        Returns:
            N x L x E, in query's dtype. The arguments are not changed.

        Source: Vaswani et al. 2017, section 3.2.2; `mlx.nn.MultiHeadAttention`.
        """
        raise NotImplementedError("1.1.4 Multi-head attention")


def causal_mask(L: int, S: int, dtype: mx.Dtype) -> mx.array:
    """Return the mask that hides the future; the L queries are the last L of the S positions.

    Args:
        L: the number of queries.
        S: the number of keys.
        dtype: of the mask.

    Returns:
        L x S: 0 where key j is not after query i, that is j <= i + S - L, and -inf elsewhere.

    Raises:
        ValueError: L > S, so the first queries would have no key.
    """
    raise NotImplementedError("1.3.1 Causal mask")


def scaled_dot_product_attention_grouped(
    query: mx.array,
    key: mx.array,
    value: mx.array,
    scale: float | None = None,
    mask: mx.array | str | None = None,
) -> mx.array:
    """Compute grouped-query attention: each key-value head serves a group of query heads, without being copied.

    Query head h reads key-value head h // (H / H_kv). H_kv = H is multi-head attention, H_kv = 1 multi-query attention.

    Args:
        query: N.. x H x L x D.
        key: N.. x H_kv x S x D, query's dtype.
        value: N.. x H_kv x S x D, query's dtype.
        scale: multiplies the dot products; None means 1 / sqrt(D).
        mask: None; "causal" (`causal_mask`); or an array as `scaled_dot_product_attention_simple` takes it, which
            broadcasts to N.. x H x L x S.

    Returns:
        N.. x H x L x D, in query's dtype.

    Raises:
        ValueError: H is not a multiple of H_kv, mask is a string other than "causal", or it is "causal" and L > S.

    Source: Ainslie et al. 2023; `mx.fast.scaled_dot_product_attention`.
    """
    raise NotImplementedError("1.3.2 Grouped attention")
