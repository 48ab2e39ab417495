"""The formulas of day 7 in NumPy float64: attention that supports fully masked rows."""

import math

import mlx.core as mx
import numpy as np
from tests.week1.formulas import causal64

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.rounding import Array64, Round, exact


def average64(scores: Array64, values: Array64, cuts: tuple[int, ...] = (), *, r: Round = exact) -> Array64:
    """softmax(scores) @ values, and zeros for a row of -inf; the split into blocks makes no difference."""
    largest = scores.max(axis=-1, keepdims=True)
    weights = r(np.exp(r(scores - np.where(np.isneginf(largest), 0, largest))))
    total = r(weights.sum(axis=-1, keepdims=True))
    return r(r(weights @ values) / np.where(total == 0, 1, total))


def flash64(
    query: Array64,
    key: Array64,
    value: Array64,
    scale: float | None = None,
    mask: Array64 | str | None = None,
    block: int = 128,
    *,
    r: Round = exact,
) -> Array64:
    """Attention with each key-value head repeated for every query head that reads it."""
    group = query.shape[-3] // key.shape[-3]
    key, value = np.repeat(key, group, axis=-3), np.repeat(value, group, axis=-3)
    scores = r(r(query @ np.swapaxes(key, -1, -2)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale))
    if mask is not None:
        scores = r(scores + (causal64(*scores.shape[-2:]) if isinstance(mask, str) else mask))
    return average64(scores, value, r=r)


def kernel64(queries: Array64, keys: Array64, values: Array64, scale: float, *, r: Round = exact) -> Array64:
    """The same for queries that are L x H x D, causal."""
    attended = flash64(np.swapaxes(queries, 0, 1), keys, values, scale, "causal", r=r)
    return np.ascontiguousarray(np.swapaxes(attended, 0, 1))


def flash_inputs(seed, dtype=mx.float32, leading=(5,), heads=6, kv_heads=2, length=4, keys=7, dims=8):
    """N, H, H_kv, L, S, D and the group's size 3 all differ."""
    draw = normals(seed, dtype)
    kv = (*leading, kv_heads, keys, dims)
    return draw(*leading, heads, length, dims), draw(*kv), draw(*kv)


def far_below_zero(query, key):
    """Return queries and keys whose scores are integers near -20,000, below the finite numbers used for infinity."""
    ends = (mx.full((*each.shape[:-1], 1), end) for each, end in ((query, -1.0), (key, 20000.0)))
    return tuple(
        mx.concatenate([mx.round(each[..., :-1]), end], axis=-1) for each, end in zip((query, key), ends, strict=True)
    )


def many_small_weights(dtype, *shape, keys=3201):
    """Return queries of this shape, keys, 1 x S x 1, and values: the first key's weight is 1, and the others' are tiny.

    A block of 32 of them is too little for a narrow sum of about 1 to change, but all together are 3% of it.
    """
    first = mx.arange(keys)[None, :, None] == 0
    return mx.ones(shape, dtype), mx.where(first, 0, -11.5).astype(dtype), mx.where(first, 1, 2).astype(dtype)


def bytes_held(running, scores, values, blocks=20):
    """Return MLX's memory after each of some equal blocks; evaluating the result evaluates the state, too."""
    held = []
    for _ in range(blocks):
        running.add(scores * 1, values * 1)
        mx.eval(running.result())
        held.append(mx.get_active_memory())
    return held
