"""Collectives and their cost as formulas in float64, and the least-squares fit in exact fractions."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tiny_llm_course.testkit.rounding import Array64, Round, exact


def reduce_scatter64(parts: Array64, *, r: Round = exact) -> Array64:
    """Return ranks x N..: for each rank its chunk of the sum; parts: ranks x ranks * N.., the array of each rank."""
    ranks = len(parts)
    chunks = parts.reshape(ranks, ranks, parts.shape[1] // ranks, *parts.shape[2:])  # by rank and number
    found = []
    for rank in range(ranks):
        total = chunks[(rank + 1) % ranks, rank]
        for step in range(2, ranks + 1):
            total = r(total + chunks[(rank + step) % ranks, rank])
        found.append(total)
    return np.stack(found)


def all_gather64(parts: Array64, *, r: Round = exact) -> Array64:
    """Return ranks x ranks * N..: for each rank all arrays; parts: ranks x N.., the array of each rank."""
    whole = r(parts).reshape(len(parts) * parts.shape[1], *parts.shape[2:])
    return np.stack([whole] * len(parts))


def all_reduce64(parts: Array64, *, r: Round = exact) -> Array64:
    """Return ranks x S..: the sum, once for each rank; parts: ranks x S..."""
    total = parts[0]
    for part in parts[1:]:
        total = r(total + part)
    return np.stack([total] * len(parts))


def fit_exactly(num_bytes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Return latency and seconds per byte with the least squared relative errors, by the normal equations."""
    pairs = [(Fraction(int(n)), Fraction(float(t))) for n, t in zip(num_bytes, seconds, strict=True)]
    rows = [(1 / t, n / t) for n, t in pairs]
    a, b, c = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    u, v = (sum(row[i] for row in rows) for i in (0, 1))
    determinant = a * c - b * b
    return float((c * u - b * v) / determinant), float((a * v - b * u) / determinant)
