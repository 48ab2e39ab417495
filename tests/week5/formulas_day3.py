"""The formulas of day 3 in NumPy float64, and derivatives by finite differences of week 1's."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.week1.formulas import causal64, softmax64

from tiny_llm_course.testkit.rounding import Array64, Round, exact, in_float32


def slopes64(forward: Callable[..., Array64], inputs: list[Array64], which: int, dy: Array64) -> Array64:
    """Return the gradient of sum(forward(*inputs) * dy) with respect to one input, by central differences."""
    gradient = np.zeros_like(inputs[which])
    for place in np.ndindex(gradient.shape):
        step = 1e-5 * max(1.0, abs(float(inputs[which][place])))
        ends = []
        for sign in (1, -1):
            moved = inputs[which].copy()
            moved[place] += sign * step
            ends.append(float(np.sum(forward(*inputs[:which], moved, *inputs[which + 1 :]) * dy)))
        gradient[place] = (ends[0] - ends[1]) / (2 * step)
    return gradient


def linear_dx64(x: Array64, w: Array64, dy: Array64, *, r: Round = exact) -> Array64:
    """Each input's gradient sums over the outputs."""
    return r(np.einsum("...o,oi->...i", dy, w))


def linear_dw64(x: Array64, w: Array64, dy: Array64, *, r: Round = exact) -> Array64:
    """Each weight's gradient sums over the tokens."""
    return r(dy.reshape(-1, len(w)).T @ x.reshape(-1, w.shape[1]))


def embedding64(ids: Array64, dy: Array64, vocab_size: int, *, r: Round = exact) -> Array64:
    """Place by place, added up."""
    table = np.zeros((vocab_size, dy.shape[-1]))
    np.add.at(table, ids.astype(int).flatten(), dy.reshape(-1, dy.shape[-1]))
    return r(in_float32(r)(table))


def rms_norm_dx64(x: Array64, weight: Array64, eps: float, dy: Array64, *, r: Round = exact) -> Array64:
    """The direct part, minus the part by way of the scale s: s dn - s**3 x mean(dn x)."""
    f = in_float32(r)
    s = f(1 / np.sqrt(f(np.mean(x * x, axis=-1, keepdims=True)) + eps))
    dn = f(dy * weight)
    through = f(np.mean(dn * f(x * s), axis=-1, keepdims=True))
    return r(s * f(dn - f(f(x * s) * through)))


def rms_norm_dweight64(x: Array64, weight: Array64, eps: float, dy: Array64, *, r: Round = exact) -> Array64:
    """The normalized features times dy, summed over the tokens."""
    f = in_float32(r)
    s = f(1 / np.sqrt(f(np.mean(x * x, axis=-1, keepdims=True)) + eps))
    return r(f(dy * f(x * s)).reshape(-1, x.shape[-1]).sum(axis=0))


def swiglu_dgate64(gate: Array64, up: Array64, dy: Array64, *, r: Round = exact) -> Array64:
    """By the slope of silu: sigmoid + g * sigmoid * (1 - sigmoid)."""
    f = in_float32(r)
    s, other = f(np.exp(-np.logaddexp(0, -gate))), f(np.exp(-np.logaddexp(0, gate)))
    return r(f(dy * up) * f(s * f(1 + f(gate * other))))


def swiglu_dup64(gate: Array64, up: Array64, dy: Array64, *, r: Round = exact) -> Array64:
    """dy times silu(gate)."""
    f = in_float32(r)
    return r(f(dy * gate) * f(np.exp(-np.logaddexp(0, -gate))))


def attention64(
    query: Array64,
    key: Array64,
    value: Array64,
    dy: Array64,
    scale: float | None = None,
    mask: Array64 | str | None = None,
    visible: Array64 | None = None,
    *,
    r: Round = exact,
) -> dict[str, Array64]:
    """Return the gradients by name, before the last rounding, head by head; visible is a mask of ones and zeros."""
    f = in_float32(r)
    (heads, length, dims), (kv_heads, keys) = query.shape[-3:], key.shape[-3:-1]
    scale = dims**-0.5 if scale is None else scale
    bias: Any = causal64(length, keys) if isinstance(mask, str) else mask
    bias = np.where(visible > 0, 0.0, -np.inf) if visible is not None else bias
    bias = np.broadcast_to(0.0 if bias is None else bias, (*query.shape[:-1], keys))
    found = {"dquery": np.zeros_like(query), "dkey": np.zeros_like(key), "dvalue": np.zeros_like(value)}
    for h in range(heads):
        own = h // (heads // kv_heads)
        q, k, v, d = query[..., h, :, :], key[..., own, :, :], value[..., own, :, :], dy[..., h, :, :]
        weights = softmax64(f(f(f(q @ np.swapaxes(k, -1, -2)) * scale) + bias[..., h, :, :]), -1, r=f)
        dweights = f(d @ np.swapaxes(v, -1, -2))
        mean = f((weights * dweights).sum(axis=-1, keepdims=True))
        dscores = f(f(weights * f(dweights - mean)) * scale)
        found["dvalue"][..., own, :, :] += f(np.swapaxes(weights, -1, -2) @ d)
        found["dquery"][..., h, :, :] = f(dscores @ k)
        found["dkey"][..., own, :, :] += f(np.swapaxes(dscores, -1, -2) @ q)
    return found


def adamw64(
    param: Array64,
    grads: Array64,
    rates: list[float],
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    decay: float = 0.01,
    *,
    r: Round = exact,
) -> Array64:
    """Take one step for each gradient; the steps' numbers begin with 1."""
    f = in_float32(r)
    m, v = np.zeros_like(param), np.zeros_like(param)
    for t, (grad, rate) in enumerate(zip(grads, rates, strict=True), start=1):
        m = f(betas[0] * m + f((1 - betas[0]) * grad))
        v = f(betas[1] * v + f((1 - betas[1]) * grad**2))
        mean, square = m / _corrected(betas[0], t, f), v / _corrected(betas[1], t, f)
        param = r(param - f(rate * f(f(mean / f(np.sqrt(square) + eps)) + decay * param)))
    return param


def _corrected(beta: float, t: int, f: Round) -> Array64:
    """Return 1 - beta ** t, where the power may be rounded to float32, by 2**-24: that counts where it is almost 1."""
    one = np.float64(1.0)
    return f(np.asarray(one - one * beta**t * (1 + (f(np.asarray(one)) - 1) / 16)))


def clipped64(grads: Array64, max_norm: float, *, r: Round = exact) -> Array64:
    """Scale all numbers by one factor."""
    f = in_float32(r)
    return r(grads * f(np.minimum(1.0, max_norm / (norm64(grads, max_norm, r=f) + 1e-6))))


def norm64(grads: Array64, max_norm: float, *, r: Round = exact) -> Array64:
    """The root of the sum of squares."""
    f = in_float32(r)
    return f(np.sqrt(f(np.asarray(np.sum(f(grads**2))))))


def rate64(step: int, peak: float, warmup: int, total: int, floor: float = 0.0) -> float:
    """A straight line from 0 to the peak, half a cosine from there to the floor, and the floor."""
    cosine = floor + (peak - floor) * np.cos(np.pi / 2 * np.clip((step - warmup) / (total - warmup), 0, 1)) ** 2
    return float(peak * step / warmup if step < warmup else cosine)
