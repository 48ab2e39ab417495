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
    heads, length, dims = query.shape[-3:]
    kv_heads, keys = key.shape[-3:-1]
    if heads % kv_heads:
        raise ValueError(f"H = {heads} query heads cannot share H_kv = {kv_heads} key-value heads evenly")
    if isinstance(mask, str):
        if mask != "causal":
            raise ValueError(f'mask is {mask!r}, but the only mask with a name is "causal"')
        mask = causal_mask(length, keys, query.dtype)
    query = mx.unflatten(query, -3, (kv_heads, -1))  # N.. x H_kv x H/H_kv x L x D
    scale = dims**-0.5 if scale is None else scale
    scores = (query @ key[..., None, :, :].swapaxes(-1, -2)) * scale  # N.. x H_kv x H/H_kv x L x S
    scores = scores.flatten(-4, -3)  # N.. x H x L x S
    if mask is not None:
        scores = mx.where(mask, scores, -mx.inf) if mask.dtype == mx.bool_ else scores + mask
    sees = mx.max(scores, axis=-1, keepdims=True) > -mx.inf  # N.. x H x L x 1: whether a query sees any key
    weights = mx.where(sees, softmax(mx.where(sees, scores, 0.0), axis=-1), 0.0).astype(value.dtype)
    kept = dropout(weights, rate, training, random_key)
    output = mx.unflatten(kept, -3, (kv_heads, -1)) @ value[..., None, :, :]
    return output.flatten(-4, -3), weights


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
        rows = (num_heads + 2 * num_kv_heads) * (wo.shape[1] // num_heads)
        if wqkv.shape[0] != rows:
            raise ValueError(f"wqkv has {wqkv.shape[0]} rows, but {rows} are needed")
        self.num_heads, self.num_kv_heads, self.layout, self.rate = num_heads, num_kv_heads, layout, rate
        self.wqkv, self.wo, self.bqkv, self.bo = wqkv, wo, bqkv, bo

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
        fused = linear(x, self.wqkv, self.bqkv)  # N x L x ((H + 2 H_kv) * D)
        query, key, value = split_qkv(fused, self.num_heads, self.num_kv_heads, self.layout)
        attended, weights = attention_with_weights(
            query, key, value, mask=mask, rate=self.rate, training=training, random_key=random_key
        )
        return linear(attended.swapaxes(1, 2).flatten(2), self.wo, self.bo), weights  # N x L x E, N x H x L x L
