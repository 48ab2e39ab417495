"""The formulas of day 5 in NumPy float64: LoRA one rank at a time, a batch one row at a time."""

import numpy as np
from tests.week1.formulas import linear64

from tiny_llm_course.testkit.rounding import Array64, Round, exact, in_float32


def lora64(
    x: Array64, w: Array64, a: Array64, b: Array64, alpha: float, bias: Array64 | None = None, *, r: Round = exact
) -> Array64:
    """x W.T + bias, plus the scaled update."""
    return r(linear64(x, w, bias, r=r) + update64(x, a, b, alpha / len(a), r=r))


def update64(x: Array64, a: Array64, b: Array64, scale: float, *, r: Round = exact) -> Array64:
    """The sum over the ranks of (x · a_i) b_i, scaled."""
    inner = r(x @ a.T)
    total = np.zeros((*x.shape[:-1], len(b)))
    for i in range(len(a)):
        total = total + inner[..., i : i + 1] * b[:, i]
    return r(scale * r(total))


def merged64(w: Array64, a: Array64, b: Array64, alpha: float, *, r: Round = exact) -> Array64:
    """W + alpha / r times the sum of the ranks' outer products. All steps are float32."""
    f = in_float32(r)
    total = np.zeros_like(w)
    for i in range(len(a)):
        total = total + np.outer(b[:, i], a[i])
    return r(f(w + f(alpha / len(a) * f(total))))


def batched64(
    x: Array64, owners: list[int], a: Array64, b: Array64, scales: list[float], *, r: Round = exact
) -> Array64:
    """One row at a time: zeros, or its own adapter's update."""
    rows = [np.zeros(b.shape[1]) if k < 0 else update64(x[t], a[k], b[k], scales[k], r=r) for t, k in enumerate(owners)]
    return np.stack(rows)
