"""The two row layouts of a fused QKV projection."""

import mlx.core as mx

LAYOUTS = ("blocks", "interleaved")


def split_qkv(
    fused: mx.array, num_heads: int, num_kv_heads: int, layout: str = "blocks"
) -> tuple[mx.array, mx.array, mx.array]:
    """Split the output of a fused projection into queries, keys and values, and each into heads.

    In "blocks" a token's features are all queries, then all keys, then all values, each head after head. In
    "interleaved" they are grouped by key-value head: the queries of its H / H_kv heads, its key, its value, then the
    next group. With H_kv = H that is q0 k0 v0 q1 k1 v1 and so on, D features each.

    Args:
        fused: N.. x L x ((H + 2 H_kv) * D), of any dtype. It is not changed.
        num_heads: H.
        num_kv_heads: H_kv, a divisor of H.
        layout: "blocks" or "interleaved".

    Returns:
        The queries, N.. x H x L x D, the keys and the values, N.. x H_kv x L x D, in fused's dtype. Query head h is in
        the group of key-value head h // (H / H_kv).

    Raises:
        ValueError: the layout is unknown; H is not a multiple of H_kv; or the number of features is not a multiple of
            H + 2 H_kv. The message states the layout; H and H_kv; or the number of features and H + 2 H_kv.

    Source: GPT-2 has "blocks", BLOOM "interleaved", Falcon-40B "interleaved" with groups.
    """
    if layout not in LAYOUTS:
        raise ValueError(f"layout is {layout!r}, but there is {' and '.join(map(repr, LAYOUTS))}")
    if num_heads % num_kv_heads:
        raise ValueError(f"num_heads = {num_heads} is not a multiple of num_kv_heads = {num_kv_heads}")
    count = num_heads + 2 * num_kv_heads  # vectors of D features a token
    if fused.shape[-1] % count:
        raise ValueError(f"{fused.shape[-1]} features are not a multiple of H + 2 H_kv = {count}")
    if layout == "blocks":
        vectors = mx.unflatten(fused, -1, (count, -1))  # N.. x L x (H + 2 H_kv) x D
        query, key, value = mx.split(vectors, [num_heads, num_heads + num_kv_heads], axis=-2)
    else:
        group = num_heads // num_kv_heads
        vectors = mx.unflatten(fused, -1, (num_kv_heads, group + 2, -1))  # N.. x L x H_kv x (H/H_kv + 2) x D
        query = vectors[..., :group, :].flatten(-3, -2)  # N.. x L x H x D
        key, value = vectors[..., group, :], vectors[..., group + 1, :]  # N.. x L x H_kv x D
    return query.swapaxes(-3, -2), key.swapaxes(-3, -2), value.swapaxes(-3, -2)


def qkv_permutation(num_heads: int, num_kv_heads: int, head_dim: int, source: str, target: str) -> mx.array:
    """Return the row permutation that converts a fused weight from one layout to another.

    With rows = qkv_permutation(..., source, target), w[rows] is w converted from `source` to `target`, and b[rows]
    likewise for a bias. From target to source it is the inverse; from a layout to itself, the identity.

    Args:
        num_heads: H.
        num_kv_heads: H_kv, a divisor of H.
        head_dim: D.
        source: the current layout, "blocks" or "interleaved", as in `split_qkv`.
        target: the new layout.

    Returns:
        (H + 2 H_kv) * D distinct row numbers, int32.

    Raises:
        ValueError: a layout is unknown; or H is not a multiple of H_kv, and the message states both numbers.
    """
    if target not in LAYOUTS:
        raise ValueError(f"layout is {target!r}, but there is {' and '.join(map(repr, LAYOUTS))}")
    rows = mx.arange((num_heads + 2 * num_kv_heads) * head_dim, dtype=mx.int32)
    # Row numbers, split like the features of a single token, give each head's rows in the source.
    query, key, value = split_qkv(rows[None], num_heads, num_kv_heads, source)  # H x 1 x D, H_kv x 1 x D twice
    if target == "blocks":
        return mx.concatenate([query.flatten(), key.flatten(), value.flatten()])
    groups = query.reshape(num_kv_heads, -1, head_dim)  # H_kv x H/H_kv x D
    return mx.concatenate([groups, key, value], axis=1).flatten()
