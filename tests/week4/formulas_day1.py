"""The formulas of day 1 in NumPy float64: masks of every form, and attention with fully masked rows.

A mask is passed as additive numbers, `mask`, or as a boolean one, `bool_mask`, encoded here as ones and zeros.
"""

import math

import numpy as np
from tests.week1.formulas import causal64, linear64, softmax64

from tiny_llm_course.testkit.rounding import Array64, Round, exact


def additive64(mask: Array64 | None, bool_mask: Array64 | None) -> Array64 | None:
    """Return the numbers to add, for whichever mask is given."""
    return mask if bool_mask is None else np.where(bool_mask != 0, 0.0, -np.inf)


def mask64(
    B: int,
    H: int,
    L: int,
    S: int,
    mask: Array64 | None = None,
    key_mask: Array64 | None = None,
    bool_mask: Array64 | None = None,
    bool_key_mask: Array64 | None = None,
    causal: bool = False,
    *,
    r: Round = exact,
) -> Array64:
    """Return the sum of all masks, broadcast to the axes that each lacks."""
    total = np.zeros((1, 1, 1, 1))
    whole, keys = additive64(mask, bool_mask), additive64(key_mask, bool_key_mask)
    if whole is not None:
        text = whole.shape[0] if whole.ndim > 2 else 1
        head = whole.shape[1] if whole.ndim > 3 else 1
        total = total + whole.reshape(text, head, *whole.shape[-2:])
    if keys is not None:
        total = total + keys.reshape(B, 1, 1, S)
    return r(total + causal64(L, S) if causal else total)


def masked64(
    query: Array64,
    key: Array64,
    value: Array64,
    mask: Array64 | None = None,
    bool_mask: Array64 | None = None,
    scale: float | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """softmax(query @ key.T * scale + mask) @ value, and zeros for a fully masked row."""
    scores = r(r(query @ np.swapaxes(key, -1, -2)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale))
    numbers = additive64(mask, bool_mask)
    if numbers is not None:
        scores = r(scores + numbers)
    return r(softmax64(scores, -1, r=r) @ value)


def cross64(
    x: Array64,
    memory: Array64,
    num_heads: int,
    wq: Array64,
    wk: Array64,
    wv: Array64,
    wo: Array64,
    bq: Array64 | None = None,
    bk: Array64 | None = None,
    bv: Array64 | None = None,
    bo: Array64 | None = None,
    mask: Array64 | None = None,
    key_mask: Array64 | None = None,
    bool_mask: Array64 | None = None,
    bool_key_mask: Array64 | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """Project, attend sequence by sequence and head by head, concatenate, project."""
    dims = wq.shape[0] // num_heads
    query, key, value = linear64(x, wq, bq, r=r), linear64(memory, wk, bk, r=r), linear64(memory, wv, bv, r=r)
    sizes = len(x), num_heads, x.shape[1], memory.shape[1]
    whole = np.broadcast_to(mask64(*sizes, mask, key_mask, bool_mask, bool_key_mask), sizes)
    heads = []
    for h in range(num_heads):
        own = slice(h * dims, (h + 1) * dims)
        heads.append(masked64(query[..., own], key[..., own], value[..., own], whole[:, h], r=r))
    return linear64(np.concatenate(heads, axis=-1), wo, bo, r=r)
