"""Attention that returns its weights with its output, and a layer of it with a fused projection."""

import mlx.core as mx

from ..attention import causal_mask
from ..basics import linear, softmax
from .dropout import dropout
from .layouts import split_qkv


def attention_with_weights(
    query: mx.array,
    key: mx.array,
    value: mx.array,
    scale: float | None = None,
    mask: mx.array | str | None = None,
    rate: float = 0.0,
    training: bool = False,
    random_key: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """Compute grouped-query attention; return the output and the attention weights.

    Args:
        query: N.. x H x L x D.
        key: N.. x H_kv x S x D, query's dtype. Query head h reads key-value head h // (H / H_kv).
        value: N.. x H_kv x S x D, query's dtype.
        scale: multiplies the dot products; None means 1 / sqrt(D).
        mask: None; "causal" (`causal_mask`); or an array that broadcasts to N.. x H x L x S. In a boolean one, True
            means that a query sees a key. One of any float dtype is added to the scaled scores, and its values may
            exceed the range of query's dtype.
        rate: dropout probability of the weights, N.. x H x L x S.
        training: whether dropout is applied.
        random_key: the `key` of `dropout`.

    Returns:
        The output, N.. x H x L x D, and the weights before dropout, N.. x H x L x S, both in query's dtype. Each row of
        weights sums to 1. A fully masked row is zero in both.

    Raises:
        ValueError: H is not a multiple of H_kv, mask is a string other than "causal", or it is "causal" and L > S; or
            rate is not from 0 to 1, in training or not, and the message states it.

    Source: `torch.nn.MultiheadAttention` with `need_weights=True, average_attn_weights=False`.
    """
    raise NotImplementedError("4.2.4 Attention that returns its weights")


class FusedMultiHeadAttention:
    """Self-attention with one fused projection for queries, keys and values; it also returns its weights.

    Letters: N batch, L length, E hidden size, H heads, H_kv key-value heads, D head dimension. H * D may differ from E.
    """

    def __init__(
        self,
        num_heads: int,
        num_kv_heads: int,
        wqkv: mx.array,
        wo: mx.array,
        bqkv: mx.array | None = None,
        layout: str = "blocks",
        rate: float = 0.0,
        bo: mx.array | None = None,
    ) -> None:
        """Store the weights, laid out as `linear` takes them. D is the number of wo's columns divided by H.

        Args:
            num_heads: H.
            num_kv_heads: H_kv, a divisor of H.
            wqkv: ((H + 2 H_kv) * D) x E, its rows in the order of the layout.
            wo: E x (H * D). Its columns are head after head in either layout.
            bqkv: (H + 2 H_kv) * D; None for no bias.
            layout: "blocks" or "interleaved".
            rate: dropout probability of the attention weights, in training.
            bo: E, the bias of the output projection; None for no bias.

        Raises:
            ValueError: wqkv's number of rows does not fit H, H_kv and wo's columns. The message states both numbers.
        """
        raise NotImplementedError("4.2.5 The whole block")

    def __call__(
        self,
        x: mx.array,
        mask: mx.array | str | None = None,
        training: bool = False,
        random_key: mx.array | None = None,
    ) -> tuple[mx.array, mx.array]:
        """Project once, split, attend in each head, join the heads, project back.

        Args:
            x: N x L x E.
            mask: as `attention_with_weights` takes it; an array broadcasts to N x H x L x L.
            training: whether dropout is applied.
            random_key: the `key` of `dropout`.

        Returns:
            The output, N x L x E, and the weights before dropout, N x H x L x L, in the dtype that x and wqkv share.

        Source: `torch.nn.MultiheadAttention`, whose `in_proj_weight` has the layout "blocks".
        """
        raise NotImplementedError("4.2.5 The whole block")
