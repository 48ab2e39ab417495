"""The paged-attention kernels, callable from Python: to try one, and for the checks."""

import mlx.core as mx

from ..kernels.native import Result, call


def paged_attend(
    queries: mx.array,
    keys: mx.array,
    values: mx.array,
    block_table: list[int],
    tokens: int,
    kv_head: int,
    scale: float,
) -> mx.array:
    """Compute attention of one token to the `tokens` of its request, for one group of heads, by this kernel.

    Args:
        queries: G x D, float32: the heads that read kv_head.
        keys: pages x H_kv x page x D, float32.
        values: as keys.
        block_table: the numbers of the request's pages, in order. Token s is in the page block_table[s // page], at
            offset s % page.
        tokens: how many there are, at least 1.
        kv_head: which of the H_kv.
        scale: of the scores.

    Returns:
        G x D, float32.

    Raises:
        ValueError: block_table has too few pages for the tokens, or a page that the pool lacks.
    """
    (group, dims), (_, kv_heads, page, _) = queries.shape, keys.shape
    pages, sizes = _table(block_table, tokens, keys), (group, kv_heads, kv_head, dims, page, tokens)
    return call("paged_attend.cpp", "paged_attend", queries, keys, values, pages, Result(queries.shape), *sizes, scale)


def paged_flash(
    queries: mx.array, keys: mx.array, values: mx.array, block_table: list[int], tokens: int, scale: float
) -> mx.array:
    """Compute causal attention of the last L of a request's tokens, by this kernel.

    Query head h reads the keys and values of head h // (H / H_kv). Query i attends to the tokens 0 to i + tokens - L.

    Args:
        queries: L x H x D, float32; L is at most `tokens`.
        keys: pages x H_kv x page x D, float32.
        values: as keys.
        block_table: the numbers of the request's pages, in order. Token s is in the page block_table[s // page], at
            offset s % page.
        tokens: how many there are.
        scale: of the scores.

    Returns:
        L x H x D, float32.

    Raises:
        ValueError: as `paged_attend`.
    """
    (length, heads, dims), (_, kv_heads, page, _) = queries.shape, keys.shape
    pages, sizes = _table(block_table, tokens, keys), (heads, kv_heads, dims, page, length, tokens)
    return call("paged_flash.cpp", "paged_flash", queries, keys, values, pages, Result(queries.shape), *sizes, scale)


def _table(block_table: list[int], tokens: int, keys: mx.array) -> mx.array:
    """Return a block table as an array: the kernels themselves check nothing."""
    pages, _, page, _ = keys.shape
    if tokens > len(block_table) * page:
        raise ValueError(f"{tokens} tokens need more than the table's {len(block_table)} pages of {page}")
    if any(not 0 <= number < pages for number in block_table[: -(-tokens // page)]):
        raise ValueError(f"block_table is {block_table}, but numbers from 0 to {pages - 1} are needed")
    return mx.array(block_table, mx.int32)
