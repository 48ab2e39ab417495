"""Day 3's references in float64: the small model of `stages.py` in one process, and where experts are."""

from collections.abc import Sequence

import numpy as np
from tests.week4.formulas_day5 import moe64

from tiny_llm_course.testkit.rounding import Array64, Round, exact

IGNORE = -100
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"


def layer_name(number: int) -> str:
    """Return the name of a layer's only weight."""
    return f"model.layers.{number}.w"


def step64(
    params: dict[str, Array64], batches: Sequence[tuple[Array64, Array64]], *, r: Round = exact
) -> tuple[float, dict[str, Array64]]:
    """Return the mean loss over all counted targets, and its gradients, of the batches of tokens and targets."""
    layers = sum(name.startswith("model.layers.") for name in params)
    grads = {name: np.zeros_like(w) for name, w in params.items()}
    total = max(1, sum(int((targets != IGNORE).sum()) for _, targets in batches))
    head = HEAD if HEAD in params else EMBEDDING
    loss = 0.0
    for tokens, targets in batches:
        ids, labels = tokens.flatten().astype(int), targets.flatten().astype(int)
        inputs = [r(params[EMBEDDING][ids])]  # of each layer
        bends = []
        for number in range(layers):
            bends.append(r(np.tanh(inputs[-1] @ params[layer_name(number)].T)))
            inputs.append(r(inputs[-1] + bends[-1]))
        logits = r(inputs[-1] @ params[head].T)
        shifted = logits - logits.max(axis=-1, keepdims=True)
        p = r(np.exp(shifted) / np.exp(shifted).sum(axis=-1, keepdims=True))
        counted = np.flatnonzero(labels != IGNORE)
        chosen = labels[counted]
        loss -= float(np.log(p[counted, chosen]).sum()) / total
        dlogits = np.zeros_like(p)
        dlogits[counted] = p[counted]
        dlogits[counted, chosen] -= 1
        dlogits /= total
        grads[head] = grads[head] + dlogits.T @ inputs[-1]
        dx = r(dlogits @ params[head])
        for number in reversed(range(layers)):
            inner = r(dx * (1 - bends[number] ** 2))
            grads[layer_name(number)] = grads[layer_name(number)] + inner.T @ inputs[number]
            dx = r(dx + inner @ params[layer_name(number)])
        table = np.zeros_like(params[EMBEDDING])
        np.add.at(table, ids, dx)
        grads[EMBEDDING] = grads[EMBEDDING] + table
    return loss, grads


def over_ranks64(
    x: Array64,
    gate: Array64,
    w_gate: Array64,
    w_up: Array64,
    w_down: Array64,
    top_k: int,
    normalize: bool,
    ranks: int,
    *,
    r: Round = exact,
) -> Array64:
    """Return the block's output for all tokens: the number of ranks does not matter."""
    found: Array64 = moe64(x, gate, w_gate, w_up, w_down, top_k, normalize, r=r)
    return found


def forward_passes_before(rank: int, stages: int, micro_batches: int) -> int:
    """Return the number of forward passes before the first backward pass."""
    return min(stages - rank, micro_batches)


def fastest(stages: int, micro_batches: int) -> float:
    """Return the length of a step in which a forward pass takes 1, a backward pass 2."""
    return 3.0 * (micro_batches + stages - 1)
