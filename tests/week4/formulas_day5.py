"""The formulas of day 5 in NumPy float64: one token and one expert at a time."""

import numpy as np
from tests.week1.formulas import linear64, mlp64, softmax64

from tiny_llm_course.testkit.rounding import Array64, Round, exact, in_float32


def route64(x: Array64, gate: Array64, top_k: int, normalize: bool, *, r: Round = exact) -> Array64:
    """Return every expert's weight for each token, N.. x X: 0 for those that are not chosen. The steps are float32."""
    f = in_float32(r)
    scores = linear64(x, gate, r=f)
    probabilities = softmax64(scores, -1, r=f)
    chosen = np.argsort(-scores, axis=-1, kind="stable")[..., :top_k]
    weights = np.take_along_axis(probabilities, chosen, axis=-1)
    if normalize:
        weights = f(weights / f(weights.sum(axis=-1, keepdims=True)))
    table = np.zeros_like(probabilities)
    np.put_along_axis(table, chosen, weights, axis=-1)
    return r(table)


def grouped64(x: Array64, w: Array64, indices: Array64, *, r: Round = exact) -> Array64:
    """Multiply x by the matrix of each of its experts, N.. x k x O."""
    result = np.zeros((*indices.shape, w.shape[1]))
    for expert in np.unique(indices).astype(int):
        *tokens, place = np.nonzero(indices == expert)
        result[(*tokens, place)] = linear64(x[tuple(tokens)], w[expert], r=r)
    return result


def moe64(
    x: Array64,
    gate: Array64,
    w_gate: Array64,
    w_up: Array64,
    w_down: Array64,
    top_k: int,
    normalize: bool,
    *,
    r: Round = exact,
) -> Array64:
    """Expert by expert: its outputs for the tokens that chose it, times their weights, summed."""
    weights = route64(x, gate, top_k, normalize, r=r)
    total = np.zeros_like(x)
    for expert in range(len(gate)):
        chosen = weights[..., expert] > 0
        if chosen.any():
            mine = mlp64(x[chosen], w_gate[expert], w_up[expert], w_down[expert], r=r)
            total[chosen] = r(total[chosen] + r(mine * weights[..., expert][chosen][:, None]))
    return total


Load64 = dict[str, Array64]


def load64(indices: Array64, probabilities: Array64, mask: Array64 | None = None, *, r: Round = exact) -> Load64:
    """Return the load metrics, by name."""
    experts = probabilities.shape[-1]
    counts = np.ones(indices.shape[:-1], bool) if mask is None else mask > 0
    tokens = np.array([(indices[counts] == expert).sum() for expert in range(experts)], float)
    share = r(tokens / tokens.sum())
    mean = r(probabilities[counts].mean(axis=0))
    return {
        "tokens": tokens,
        "share": share,
        "imbalance": r(experts * share.max()),
        "auxiliary_loss": r(experts * r((share * mean).sum())),
    }
