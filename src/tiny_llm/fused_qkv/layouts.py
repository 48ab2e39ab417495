"""Queries, keys and values from one projection, whose rows stand in one of two orders."""

import mlx.core as mx

LAYOUTS = ("blocks", "interleaved")


def split_qkv(
    fused: mx.array, num_heads: int, num_kv_heads: int, layout: str = "blocks"
) -> tuple[mx.array, mx.array, mx.array]:
    """Take queries, keys and values apart that have been projected together, and split them into heads.

    In "blocks" the features of a token are all queries, then all keys, then all values, each of them head after head.
    In "interleaved" they come by key-value heads: the queries of its group of H / H_kv heads, its key, its value, then
    the next group. With H_kv = H that is q0 k0 v0 q1 k1 v1 and so on, D features each.

    Args:
        fused: N.. x L x ((H + 2 H_kv) * D), of any dtype. It is not changed.
        num_heads: H.
        num_kv_heads: H_kv, a divisor of H.
        layout: "blocks" or "interleaved".

    Returns:
        The queries, N.. x H x L x D, the keys and the values, N.. x H_kv x L x D, in fused's dtype. Query head h is of
        the group of key-value head h // (H / H_kv).

    Raises:
        ValueError: there is no such layout; H is not a multiple of H_kv; or the features are not a multiple of
            H + 2 H_kv. The message says what was given.

    Source: GPT-2 has "blocks", BLOOM "interleaved", Falcon-40B "interleaved" with groups.
    """
    raise NotImplementedError("4.2.1 Fused QKV")


def qkv_permutation(num_heads: int, num_kv_heads: int, head_dim: int, source: str, target: str) -> mx.array:
    """Which rows of a fused weight, in which order, make the same weight in another layout.

    With rows = qkv_permutation(..., source, target), w[rows] is in the layout `target` what w is in `source`, and
    b[rows] the same for a bias. From target to source it is the inverse; from a layout to itself, all rows stay.

    Args:
        num_heads: H.
        num_kv_heads: H_kv, a divisor of H.
        head_dim: D.
        source: "blocks" or "interleaved", as `split_qkv` says; the layout that there is.
        target: the one that is wanted.

    Returns:
        (H + 2 H_kv) * D different row numbers, int32.

    Raises:
        ValueError: there is no such layout, or H is not a multiple of H_kv.
    """
    raise NotImplementedError("4.2.2 From one layout to the other")
