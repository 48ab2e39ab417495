"""The formulas of day 4 in NumPy float64: accumulation, the training loop on a small problem, the scaling law."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.week5.formulas_day2 import cross_entropy64, gradient64

from tiny_llm_course.testkit.rounding import Array64, Round, exact, in_float32

IGNORE = -100


def accumulated64(
    losses: Array64, grads: Array64, counts: Sequence[int], *, r: Round = exact
) -> tuple[Array64, Array64]:
    """Weight each micro-batch, a row of grads and a number of losses, by its share of the counted targets."""
    f = in_float32(r)
    share = f(np.array(counts, np.float64) / max(1, sum(counts)))
    return f((f(share * losses)).sum()), r(f((share[:, None] * grads).sum(axis=0)))


def problem64(w: Array64, values: Array64, tokens: Array64, targets: Array64) -> tuple[float, Array64, int]:
    """Return the mean of (w[token] - values[target])**2 / 2 over the counted targets, its gradient and their number."""
    counted = targets != IGNORE
    ids, wanted = tokens[counted].astype(int), values[targets[counted].astype(int)]
    errors = w[ids] - wanted
    grad = np.zeros_like(w)
    np.add.at(grad, ids, errors)
    count = max(1, int(counted.sum()))
    return float(np.square(errors).sum() / 2 / count), grad / count, int(counted.sum())


def train64(
    w: Array64, values: Array64, batches: Sequence[Any], recipe: dict[str, Any], decay: float = 0.0, *, r: Round = exact
) -> dict[str, Any]:
    """Run the loop: batches is a list of (tokens, targets), used again from the start when it is over."""
    m, v, t = np.zeros_like(w), np.zeros_like(w), 0
    log: list[dict[str, Any]] = []
    norms: list[float] = []
    number = 0
    for step in range(1, recipe["until"] + 1):
        parts = []
        for _ in range(recipe["micro_batches"]):
            parts.append(problem64(w, values, *batches[number % len(batches)]))
            number += 1
        total = max(1, sum(count for _, _, count in parts))
        loss = sum(loss * count for loss, _, count in parts) / total
        grad = r(np.asarray(sum(grad * count for _, grad, count in parts) / total))
        norm = float(np.sqrt(np.square(grad).sum()))
        rate = rate64(step, recipe)
        window = norms[-recipe["spike_window"] :]
        full = len(window) == recipe["spike_window"]
        bad = not np.isfinite([loss, norm]).all() or (full and norm > recipe["spike_factor"] * float(np.median(window)))
        if not bad:
            norms.append(norm)
            grad = r(grad * min(1.0, recipe["max_norm"] / (norm + 1e-6)))
            t += 1
            m, v = r(0.9 * m + 0.1 * grad), r(0.99 * v + 0.01 * np.square(grad))
            w = r(w - rate * (m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8) + decay * w))
        log.append(
            {"step": step, "loss": loss, "norm": norm, "learning_rate": rate, "skipped": bad,
             "targets": sum(count for _, _, count in parts)}
        )  # fmt: skip
    return {"w": w, "log": log, "batches": number, "updates": t}


def rate64(step: int, recipe: dict[str, Any]) -> float:
    """Return the learning rate of a step, counted from 1."""
    peak, warmup, total, floor = (recipe[name] for name in ("learning_rate", "warmup", "steps", "floor"))
    if step < warmup:
        return float(peak * step / warmup)
    progress = min(1.0, (step - warmup) / (total - warmup))
    return float(floor + (peak - floor) * (1 + np.cos(np.pi * progress)) / 2)


Law64 = tuple[float, float, float]


def law64(sizes: Array64, losses: Array64) -> Law64:
    """Return E, A and alpha by a grid and a golden-section search; for each alpha, the regression line."""

    def line(alpha: float) -> tuple[float, float, float]:
        x = (sizes / sizes.min()) ** -alpha
        covariance = np.cov(x, losses, bias=True)
        A = max(0.0, covariance[0, 1] / covariance[0, 0])
        E = losses.mean() - A * x.mean()
        if A == 0:
            E = losses.mean()
        elif E < 0:
            E, A = 0.0, max(0.0, float(x @ losses / (x @ x)))
        return float(E), float(A), float(np.square(E + A * x - losses).sum())

    grid = np.linspace(0.01, 2, 60)
    best = int(np.argmin([line(alpha)[2] for alpha in grid]))
    low, high = float(grid[max(0, best - 1)]), float(grid[min(59, best + 1)])
    ratio = (np.sqrt(5) - 1) / 2
    for _ in range(38):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if line(left)[2] < line(right)[2]:
            high = right
        else:
            low = left
    alpha = (low + high) / 2
    E, A, _ = line(alpha)
    return E, A * float(sizes.min()) ** alpha, alpha


def predictions64(
    losses: Array64, sizes: Sequence[float], at: Sequence[float], resamples: int = 0, seed: int = 0, *, r: Round = exact
) -> Array64:
    """Return the losses at some sizes: of the fitted law in the first row, then of each resample's."""
    n, points = np.array(sizes, np.float64), np.array(at, np.float64)
    E, A, alpha = law64(n, losses)
    fitted = E + A * n**-alpha
    rows = [E + A * points**-alpha]
    for i in range(resamples):
        k = np.random.default_rng([seed, i]).integers(len(n), size=len(n))
        E_, A_, alpha_ = law64(n, fitted + (losses - fitted)[k])
        rows.append(E_ + A_ * points**-alpha_)
    return r(np.array(rows))


def row_losses64(
    logits: Array64, targets: Array64, scale: float = 1.0, ignored: int = IGNORE, *, r: Round = exact
) -> Array64:
    """Compute each row's loss, which the scale does not change."""
    pairs = zip(logits, targets, strict=True)
    return np.array([float(cross_entropy64(z[None], np.array([target]), ignored, r=r)) for z, target in pairs])


def row_gradients64(
    logits: Array64, targets: Array64, scale: float = 1.0, ignored: int = IGNORE, *, r: Round = exact
) -> Array64:
    """Compute the gradients of each row's logits, times the scale."""
    pairs = zip(logits, targets, strict=True)
    return r(scale * np.array([gradient64(z[None], np.array([target]), ignored, r=r)[0] for z, target in pairs]))
