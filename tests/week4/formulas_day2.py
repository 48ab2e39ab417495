"""The formulas of day 2 in NumPy float64. A random key is identified by the number that it is made from."""

import math

import mlx.core as mx
import numpy as np
from tests.week1.formulas import causal64, linear64, softmax64

from tiny_llm_course.testkit.rounding import Array64, Round, exact

PARTS = ("query", "key", "value")


def places(num_heads: int, num_kv_heads: int, head_dim: int, layout: str) -> list[list[int]]:
    """Map each vector of D features, queries, then keys, then values, to the positions of its features."""
    group = num_heads // num_kv_heads
    if layout == "blocks":
        starts = list(range(num_heads + 2 * num_kv_heads))
    else:
        firsts = [kv * (group + 2) for kv in range(num_kv_heads)]
        queries = [first + i for first in firsts for i in range(group)]
        starts = queries + [first + group for first in firsts] + [first + group + 1 for first in firsts]
    return [list(range(start * head_dim, (start + 1) * head_dim)) for start in starts]


def split64(
    fused: Array64, num_heads: int, num_kv_heads: int, layout: str, part: str = "query", *, r: Round = exact
) -> Array64:
    """Return one of the three parts, head by head."""
    dims = fused.shape[-1] // (num_heads + 2 * num_kv_heads)
    vectors = places(num_heads, num_kv_heads, dims, layout)
    queries, keys = vectors[:num_heads], vectors[num_heads : num_heads + num_kv_heads]
    own = dict(zip(PARTS, (queries, keys, vectors[num_heads + num_kv_heads :]), strict=True))[part]
    return np.stack([fused[..., columns] for columns in own], axis=-3)


def permutation64(num_heads: int, num_kv_heads: int, head_dim: int, source: str, target: str) -> Array64:
    """Return the source row for each row of the target."""
    wanted: list[float] = [0.0] * ((num_heads + 2 * num_kv_heads) * head_dim)
    both = (places(num_heads, num_kv_heads, head_dim, layout) for layout in (source, target))
    for there, here in zip(*both, strict=True):
        for old, new in zip(there, here, strict=True):
            wanted[new] = old
    return np.array(wanted)


def stays64(rate: float, shape: tuple[int, ...], chance: int) -> Array64:
    """Return 1 where a value is kept and 0 where it is dropped."""
    with mx.stream(mx.cpu):
        return np.array(mx.random.bernoulli(1 - rate, shape, key=mx.random.key(chance)), dtype=np.float64)


def next_stays64(rate: float, shape: tuple[int, ...]) -> Array64:
    """The same without a key: by MLX's global random state."""
    with mx.stream(mx.cpu):
        return np.array(mx.random.bernoulli(1 - rate, shape), dtype=np.float64)


def dropout64(x: Array64, rate: float, training: bool = True, chance: int = 0, *, r: Round = exact) -> Array64:
    """Apply dropout to x."""
    if not training or rate == 0:
        return x
    stays = stays64(rate, x.shape, chance) == 1
    return r(np.where(stays, x, 0.0) / (1 - rate if rate < 1 else 1))


def weights64(
    query: Array64,
    key: Array64,
    value: Array64,
    scale: float | None = None,
    mask: Array64 | str | None = None,
    may_look: Array64 | None = None,
    rate: float = 0.0,
    training: bool = False,
    chance: int = 0,
    part: str = "output",
    *,
    r: Round = exact,
) -> Array64:
    """Return the output or the weights of attention; `may_look` is a boolean mask."""
    group = query.shape[-3] // key.shape[-3]
    key, value = np.repeat(key, group, axis=-3), np.repeat(value, group, axis=-3)
    scores = r(r(query @ np.swapaxes(key, -1, -2)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale))
    if may_look is not None:
        scores = np.where(np.broadcast_to(may_look, scores.shape) == 1, scores, -np.inf)
    if mask is not None:
        scores = r(scores + (causal64(*scores.shape[-2:]) if isinstance(mask, str) else mask))
    weights = softmax64(scores, -1, r=r)
    if part == "weights":
        return weights
    return r(dropout64(weights, rate, training, chance, r=r) @ value)


def block64(
    x: Array64,
    num_heads: int,
    num_kv_heads: int,
    wqkv: Array64,
    wo: Array64,
    bqkv: Array64 | None = None,
    layout: str = "blocks",
    mask: Array64 | str | None = None,
    may_look: Array64 | None = None,
    rate: float = 0.0,
    training: bool = False,
    chance: int = 0,
    part: str = "output",
    bo: Array64 | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """The whole block, each head's rows taken from the fused weight separately."""
    dims = wo.shape[1] // num_heads
    projected = []
    for rows in places(num_heads, num_kv_heads, dims, layout):
        projected.append(linear64(x, wqkv[rows], None if bqkv is None else bqkv[rows], r=r))
    query, key, value = (
        np.stack(some, axis=1)
        for some in (
            projected[:num_heads],
            projected[num_heads : num_heads + num_kv_heads],
            projected[num_heads + num_kv_heads :],
        )
    )
    found = weights64(query, key, value, None, mask, may_look, rate, training, chance, part, r=r)
    if part == "weights":
        return found
    return linear64(np.concatenate([found[:, h] for h in range(num_heads)], axis=-1), wo, bo, r=r)
