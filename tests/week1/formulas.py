"""The formulas of week 1 in NumPy float64, the first oracle of the tests.

Each is written for exactness, not speed, and independently of the solution, one head and one row at a time where
that is simpler. `r` rounds every step; see `tiny_llm_course.testkit.rounding`.
"""

import math

import numpy as np

from tiny_llm_course.testkit.rounding import Array64, Perturbing, Round, exact, in_float32


def softmax64(x: Array64, axis: int, *, r: Round = exact) -> Array64:
    """exp(x) / sum exp(x), shifted by the maximum; zeros where every x is -inf."""
    largest = x.max(axis=axis, keepdims=True)
    largest = np.where(np.isneginf(largest), 0, largest)
    e = r(np.exp(r(x - largest)))
    total = r(e.sum(axis=axis, keepdims=True))
    total = np.where(total == 0, 1, total)
    # exp(x - logsumexp(x)) is also right, and rounds the logarithm of the sum as a number of the largest x's size.
    logarithm = np.log(total)
    moved = r(largest + logarithm) - (largest + logarithm) if isinstance(r, Perturbing) else 0.0
    return r(e / total * np.exp(np.clip(moved, -np.abs(logarithm), np.abs(logarithm))))


def attention64(
    query: Array64,
    key: Array64,
    value: Array64,
    scale: float | None = None,
    mask: Array64 | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """softmax(query @ key.T * scale + mask) @ value."""
    scores = r(r(query @ np.swapaxes(key, -1, -2)) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale))
    if mask is not None:
        scores = r(scores + mask)
    return r(softmax64(scores, -1, r=r) @ value)


def linear64(x: Array64, w: Array64, bias: Array64 | None = None, *, r: Round = exact) -> Array64:
    """x @ w.T + bias."""
    y = r(x @ w.T)
    return y if bias is None else r(y + bias)


def multi_head64(
    query: Array64,
    key: Array64,
    value: Array64,
    num_heads: int,
    wq: Array64,
    wk: Array64,
    wv: Array64,
    wo: Array64,
    mask: Array64 | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """Project, attend head by head, concatenate, project."""
    dims = wq.shape[0] // num_heads
    q, k, v = linear64(query, wq, r=r), linear64(key, wk, r=r), linear64(value, wv, r=r)
    mask = None if mask is None else np.broadcast_to(mask, (len(q), num_heads, q.shape[1], k.shape[1]))
    heads = []
    for h in range(num_heads):
        own = slice(h * dims, (h + 1) * dims)
        heads.append(attention64(q[..., own], k[..., own], v[..., own], mask=None if mask is None else mask[:, h], r=r))
    return linear64(np.concatenate(heads, axis=-1), wo, r=r)


def rope64(
    x: Array64, positions: list[range], base: float = 10000, traditional: bool = False, *, r: Round = exact
) -> Array64:
    """Rotate x, N x L x H x D, as complex numbers: pair i of a token at position p is multiplied by exp(j p theta_i).

    `positions` holds one range per row. The rotation is float32 for every dtype; only the result is rounded.
    """
    dims = x.shape[-1]
    even, odd = (slice(0, None, 2), slice(1, None, 2)) if traditional else (slice(dims // 2), slice(dims // 2, None))
    frequencies = float(base) ** (-np.arange(0, dims, 2) / dims)
    angles = np.stack([in_float32(r)(np.outer(np.array(row), frequencies)) for row in positions])
    rotations = np.exp(1j * angles)
    rotated = (x[..., even] + 1j * x[..., odd]) * rotations[:, :, None, :]
    y = np.empty_like(x)
    y[..., even], y[..., odd] = rotated.real, rotated.imag
    return r(y)


def causal64(length: int, keys: int) -> Array64:
    """Return 0 where a query may look, -inf where it may not; the last query sees the last key."""
    return np.triu(np.full((length, keys), -np.inf), k=keys - length + 1)


def grouped64(
    query: Array64,
    key: Array64,
    value: Array64,
    scale: float | None = None,
    mask: Array64 | str | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """Attention with each key-value head repeated for every query head that reads it."""
    group = query.shape[-3] // key.shape[-3]
    bias = causal64(query.shape[-2], key.shape[-2]) if isinstance(mask, str) else mask
    key, value = np.repeat(key, group, axis=-3), np.repeat(value, group, axis=-3)
    return attention64(query, key, value, scale, bias, r=r)


def rms_norm64(x: Array64, weight: Array64, eps: float, *, r: Round = exact) -> Array64:
    """x / sqrt(mean(x * x) + eps) * weight; the statistics are not rounded."""
    return r(r(x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps)) * weight)


def silu64(x: Array64, *, r: Round = exact) -> Array64:
    """x / (1 + exp(-x))."""
    sigmoid = r(np.exp(-np.logaddexp(0, -x)))  # 1 / (1 + exp(-x)), without an exponential that overflows
    return r(x * sigmoid)


def mlp64(x: Array64, w_gate: Array64, w_up: Array64, w_down: Array64, *, r: Round = exact) -> Array64:
    """SwiGLU."""
    gated = r(silu64(linear64(x, w_gate, r=r), r=r) * linear64(x, w_up, r=r))
    return linear64(gated, w_down, r=r)


def qwen_attention64(
    x: Array64,
    num_heads: int,
    num_kv_heads: int,
    wq: Array64,
    wk: Array64,
    wv: Array64,
    wo: Array64,
    q_norm: Array64 | None = None,
    k_norm: Array64 | None = None,
    bq: Array64 | None = None,
    bk: Array64 | None = None,
    bv: Array64 | None = None,
    theta: float = 1000000,
    eps: float = 1e-6,
    mask: Array64 | str | None = None,
    *,
    r: Round = exact,
) -> Array64:
    """Qwen3's attention (with norms) and Qwen2.5's (with biases)."""
    batch, length, _ = x.shape

    def heads(w: Array64, bias: Array64 | None, number: int) -> Array64:
        return linear64(x, w, bias, r=r).reshape(batch, length, number, -1)

    query, key, value = heads(wq, bq, num_heads), heads(wk, bk, num_kv_heads), heads(wv, bv, num_kv_heads)
    if q_norm is not None:
        query = rms_norm64(query, q_norm, eps, r=r)
    if k_norm is not None:
        key = rms_norm64(key, k_norm, eps, r=r)
    positions = [range(length)] * batch
    query, key = rope64(query, positions, theta, r=r), rope64(key, positions, theta, r=r)
    query, key, value = (np.swapaxes(y, 1, 2) for y in (query, key, value))
    attended = grouped64(query, key, value, mask=mask, r=r)
    return linear64(np.swapaxes(attended, 1, 2).reshape(batch, length, -1), wo, r=r)
