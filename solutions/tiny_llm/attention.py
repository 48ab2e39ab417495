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
    if scale is None:
        scale = query.shape[-1] ** -0.5  # a Python float: an mx.array would turn float16 scores into float32
    scores = (query @ key.swapaxes(-1, -2)) * scale  # N.. x L x S
    if mask is not None:
        scores = scores + mask  # in the wider of the two dtypes: in float16, a bias of -100,000 would be -inf
    return softmax(scores, axis=-1).astype(value.dtype) @ value  # N.. x L x D


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
        width = wq.shape[0]
        if width % num_heads:
            raise ValueError(f"wq has {width} rows, which is not a multiple of num_heads = {num_heads}")
        for name, w, wanted in [
            ("wq", wq, (width, hidden_size)),
            ("wk", wk, (width, hidden_size)),
            ("wv", wv, (width, hidden_size)),
            ("wo", wo, (hidden_size, width)),
        ]:
            if w.shape != wanted:
                raise ValueError(f"{name} has shape {w.shape}, but {wanted} is needed")
        self.num_heads = num_heads
        self.wq, self.wk, self.wv, self.wo = wq, wk, wv, wo

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
        heads = scaled_dot_product_attention_simple(
            self._split_heads(linear(query, self.wq)),  # N x H x L x D
            self._split_heads(linear(key, self.wk)),  # N x H x S x D
            self._split_heads(linear(value, self.wv)),  # N x H x S x D
            mask=mask,
        )
        # Heads move back after the length before joining: the features of one token must be adjacent again.
        joined = heads.swapaxes(-3, -2).flatten(-2)  # N x L x (H * D)
        return linear(joined, self.wo)

    def _split_heads(self, x: mx.array) -> mx.array:
        """N x L x (H * D) -> N x H x L x D: split the features first, then move the heads before the length."""
        return mx.unflatten(x, -1, (self.num_heads, -1)).swapaxes(-3, -2)


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
    if L > S:
        raise ValueError(f"L = {L} queries are more than S = {S} keys, so the first would see nothing")
    queries = mx.arange(S - L, S)[:, None]  # their positions among the keys
    return mx.where(mx.arange(S) <= queries, 0.0, -mx.inf).astype(dtype)


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
    heads, length, _ = query.shape[-3:]
    kv_heads, keys = key.shape[-3:-1]
    if heads % kv_heads:
        raise ValueError(f"H = {heads} query heads cannot share H_kv = {kv_heads} key-value heads evenly")
    if isinstance(mask, str):
        if mask != "causal":
            raise ValueError(f'mask is {mask!r}, but the only mask with a name is "causal"')
        mask = causal_mask(length, keys, query.dtype)
    if mask is not None:
        mask = mx.broadcast_to(mask, (*query.shape[:-2], length, keys))
        mask = mx.unflatten(mask, -3, (kv_heads, -1))  # N.. x H_kv x H/H_kv x L x S
    attended = scaled_dot_product_attention_simple(
        mx.unflatten(query, -3, (kv_heads, -1)),  # N.. x H_kv x H/H_kv x L x D
        key[..., None, :, :],  # N.. x H_kv x 1 x S x D: broadcast over the group, not copied
        value[..., None, :, :],
        scale,
        mask,
    )
    return attended.flatten(-4, -3)  # N.. x H x L x D
