"""Flash attention by a Metal kernel."""

import math

import mlx.core as mx

from .device import Launch, launch

QUERIES = 16  # per block; each block is one threadgroup
THREADS = 128  # per threadgroup
MOST = 128  # the largest head dimension


def flash_attention(
    query: mx.array, key: mx.array, value: mx.array, scale: float | None = None, mask: str | None = None
) -> mx.array:
    """Compute `scaled_dot_product_attention_grouped` tile by tile, by the kernel `flash_attention.metal`.

    With "causal", blocks of keys that are hidden from a whole block of queries are not read.

    Args:
        query: N.. x H x L x D, in a float dtype, D at most 128.
        key: N.. x H_kv x S x D, query's dtype. Query head h reads key-value head h // (H / H_kv).
        value: as key. S is at least 1.
        scale: multiplies the dot products; None means 1 / sqrt(D).
        mask: None, or "causal": query i sees the keys 0 to i + S - L.

    Returns:
        An array of query's shape and dtype, computed in float32.

    Raises:
        ValueError: an argument is not as above, or mask is "causal" and L > S; the message says what is needed.

    Source: Dao et al. 2022; `mx.fast.scaled_dot_product_attention`.
    """
    *leading, heads, length, dims = query.shape
    kv_heads, tokens = key.shape[-3:-1]
    if key.shape != (*leading, kv_heads, tokens, dims) or heads % max(kv_heads, 1):
        raise ValueError(
            f"key is {key.shape}, but {(*leading, 'H_kv', 'S', dims)} is needed, H_kv a divisor of {heads}"
        )
    for name, each in (("key", key), ("value", value)):
        if (each.shape, each.dtype) != (key.shape, query.dtype):
            raise ValueError(f"{name} is {each.shape} {each.dtype}, but {key.shape} {query.dtype} is needed")
    if mask not in (None, "causal"):
        raise ValueError(f'mask is {mask!r}, but None or "causal" is needed')
    if dims > MOST:
        raise ValueError(f"D = {dims}, but {MOST} at most is needed")
    least = length if mask else 1
    if tokens < least:
        raise ValueError(f"S = {tokens} keys for L = {length} queries, but {least} at least are needed")
    rows, kv_rows = (math.prod((*leading, each)) for each in (heads, kv_heads))
    inputs = {
        "query": query.reshape(rows, length, dims),
        "key": key.reshape(kv_rows, tokens, dims),
        "value": value.reshape(kv_rows, tokens, dims),
        "scale": mx.array([dims**-0.5 if scale is None else scale], mx.float32),
        "causal": mx.array([mask is not None], mx.int32),
    }
    work = Launch(
        inputs,
        {"out": (inputs["query"].shape, query.dtype)},
        (-(-length // QUERIES) * THREADS, rows, 1),
        (THREADS, 1, 1),
        {"T": query.dtype},
    )
    return launch("flash_attention", work)[0].reshape(query.shape)
