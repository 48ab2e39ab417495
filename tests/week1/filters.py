"""The filters' formulas in float64, and logits for their checks."""

import math

import mlx.core as mx
import numpy as np
from tests.week1.formulas import softmax64

from tiny_llm_course.testkit.inputs import distinct, forbidding, token_ids
from tiny_llm_course.testkit.rounding import exact

# Probabilities of six tokens. No sum of the first few lies near one of P, and no ratio near one of MIN_P: which tokens
# stay does not depend on rounding.
SHARP = [0.60, 0.18, 0.13, 0.05, 0.03, 0.01]
MIDDLE = [0.36, 0.26, 0.18, 0.11, 0.06, 0.03]
FLAT = [0.21, 0.20, 0.18, 0.16, 0.14, 0.11]


def vocabularies(seed, dtype=mx.float32, rows=(SHARP, MIDDLE, FLAT)):
    """Logits with these probabilities: each row in an order of its own, and shifted by a number of its own."""
    generator = np.random.default_rng(seed)
    logits = [generator.permutation(np.log(row)) + shift for row, shift in zip(rows, (2, -1, 1), strict=False)]
    return mx.array(np.array(logits, np.float32)).astype(dtype)


def log_rows(*rows, dtype=mx.float32):
    """Logits with these probabilities; those of the second row are shifted."""
    return mx.array([[math.log(p) - 3 * i for p in row] for i, row in enumerate(rows)]).astype(dtype)


def penalty64(logits, tokens, penalty, *, r=exact):
    y = logits.copy()
    for row, seen in enumerate(tokens):
        for token in set(seen):
            value = logits[row, token]
            y[row, token] = value / penalty if value > 0 else value * penalty
    return r(y)


def top_k64(logits, k, *, r=exact):
    kth = np.array([sorted(row)[-min(k, len(row))] for row in logits])
    return r(np.where(logits >= kth[:, None], logits, -np.inf))


def top_p64(logits, p, *, r=exact):
    y = np.full(logits.shape, -np.inf)
    for row, probabilities in enumerate(softmax64(logits, -1)):
        total = 0.0
        for token in np.argsort(-probabilities, kind="stable"):
            y[row, token] = logits[row, token]
            total += probabilities[token]
            if total >= p and p < 1:
                break
    return r(y)


def min_p64(logits, min_p, *, r=exact):
    likelier = np.exp(logits - logits.max(axis=-1, keepdims=True)) >= min_p
    return r(np.where(likelier, logits, -np.inf))


def used(n, size, most=3):
    """For each row of a sweep's case up to `most` tokens, the vocabulary's last among them, and some of them often."""
    return [token_ids(n.seed + row, size, (most + row) % (most + 1)) for row in range(n.N)]


def unlike(n):
    """Logits of a sweep's case, no two of a row alike; some are -inf, and in float32 they lie far from 0."""
    shift = n.shift if n.spread >= 1 else 0
    logits = distinct(n.seed, n.dtype, n.N, n.V, max(n.spread, 0.1), shift)
    return n.turn(logits, forbidding(n.seed, logits))


def in_order(logits):
    """The same, the likeliest token of each row at the end of the vocabulary, and at its beginning."""
    return mx.sort(logits, axis=-1), -mx.sort(-logits, axis=-1)


def off(borders, wanted, dtype):
    """A number near the wanted one that is far from all borders: a choice that does not depend on rounding.

    If logits are narrow, it is just off one, but not by what float32 can mistake: probabilities must be float32.
    """
    near = np.linspace(0.9 * wanted, 1.1 * wanted, 41)
    distance = np.abs(near[:, None] - np.asarray(borders).reshape(-1)).min(axis=1)
    least = distance.max() if dtype == mx.float32 else min(distance.max(), 0.0005 * wanted)
    return float(near[np.where(distance >= least, distance, np.inf).argmin()])
