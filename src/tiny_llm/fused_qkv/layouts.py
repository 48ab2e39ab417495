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
    raise NotImplementedError("4.2.1 Fused QKV")


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
    raise NotImplementedError("4.2.2 From one layout to another")
