"""The kernels that read pages, straight from Python: for a look at one of them, and for the checks."""

import mlx.core as mx

from ..kernels.native import Result, call


def paged_attend(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    table: list[int],
    tokens: int,
    kv_head: int,
    scale: float,
) -> mx.array:
    """Attention of one token to the `tokens` of its request, for the heads of one group, by the kernel of this name.

    Args:
        queries: G x D, float32: the heads that read kv_head.
        keys: pages x H_kv x page x D, float32.
        values: as keys.
        table: the numbers of the request's pages, in order. Token s is in the page table[s // page], at s % page.
        tokens: how many there are, 1 at least.
        kv_head: which of the H_kv.
        scale: of the scores.

    Returns:
        G x D, float32.
    """
    (group, dims), (_, kv_heads, page, _) = queries.shape, keys.shape
    pages, sizes = mx.array(table, mx.int32), (group, kv_heads, kv_head, dims, page, tokens)
    return call("paged_attend.cpp", "paged_attend", queries, keys, values, pages, Result(queries.shape), *sizes, scale)


def paged_flash(
    queries: mx.array, keys: mx.array, values: mx.array, table: list[int], tokens: int, scale: float
) -> mx.array:
    """Causal attention of the last L of a request's tokens, by the kernel of this name.

    Query head h reads the keys and values of head h // (H / H_kv). Query i sees the tokens 0 to i + tokens - L.

    Args:
        queries: L x H x D, float32; L is `tokens` or less.
        keys: pages x H_kv x page x D, float32.
        values: as keys.
        table: the numbers of the request's pages, in order. Token s is in the page table[s // page], at s % page.
        tokens: how many there are.
        scale: of the scores.

    Returns:
        L x H x D, float32.
    """
    (length, heads, dims), (_, kv_heads, page, _) = queries.shape, keys.shape
    pages, sizes = mx.array(table, mx.int32), (heads, kv_heads, dims, page, length, tokens)
    return call("paged_flash.cpp", "paged_flash", queries, keys, values, pages, Result(queries.shape), *sizes, scale)
