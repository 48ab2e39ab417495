"""The filters' formulas in float64, and logits for their checks."""

import math

import mlx.core as mx
import numpy as np
from tests.week1.formulas import softmax64

from tiny_llm_course.testkit.inputs import distinct, forbidding, token_ids
from tiny_llm_course.testkit.rounding import exact

# Probabilities of six tokens. No cumulative sum is close to one of P, and no ratio to one of MIN_P: which tokens
# stay does not depend on rounding.
SHARP = [0.60, 0.18, 0.13, 0.05, 0.03, 0.01]
MIDDLE = [0.36, 0.26, 0.18, 0.11, 0.06, 0.03]
FLAT = [0.21, 0.20, 0.18, 0.16, 0.14, 0.11]


def vocabularies(seed, dtype=mx.float32, rows=(SHARP, MIDDLE, FLAT)):
    """Return logits with these probabilities; each row is shuffled and shifted differently."""
    generator = np.random.default_rng(seed)
    logits = [generator.permutation(np.log(row)) + shift for row, shift in zip(rows, (2, -1, 1), strict=False)]
    return mx.array(np.array(logits, np.float32)).astype(dtype)


def log_rows(*rows, dtype=mx.float32):
    """Return logits with these probabilities; the second row is shifted."""
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
    """Return up to `most` tokens per row of a sweep case, with repetitions and the last token of the vocabulary."""
    return [token_ids(n.seed + row, size, (most + row) % (most + 1)) for row in range(n.N)]


def unlike(n):
    """Return logits of a sweep case, distinct within a row; some are -inf, and in float32 they are far from 0."""
    shift = n.shift if n.spread >= 1 else 0
    logits = distinct(n.seed, n.dtype, n.N, n.V, max(n.spread, 0.1), shift)
    return n.turn(logits, forbidding(n.seed, logits))


def in_order(logits):
    """Return the logits sorted in ascending and in descending order."""
    return mx.sort(logits, axis=-1), -mx.sort(-logits, axis=-1)


def off(borders, wanted, dtype):
    """Return a number near the wanted one that is far from all borders, so that rounding cannot change the choice.

    With half-precision logits it is just off a border, by more than float32 rounding: probabilities must be float32.
    """
    near = np.linspace(0.9 * wanted, 1.1 * wanted, 41)
    distance = np.abs(near[:, None] - np.asarray(borders).reshape(-1)).min(axis=1)
    least = distance.max() if dtype == mx.float32 else min(distance.max(), 0.0005 * wanted)
    return float(near[np.where(distance >= least, distance, np.inf).argmin()])


def add_mistakes(known, begins):
    """Add the mistakes that any filter may have; the filter's code begins with these words."""
    for name, number, question in (
        ("zeros", 0, "What is the probability of a logit of 0 beside one of -2?"),
        ("large-negative", -10000, "Which float gives probability 0, whatever the other logits are?"),
    ):
        fact = f"the dropped logits become {number} instead of -inf"
        known.change(name, ("-mx.inf", str(number)), fact=fact, question=question)
    known.change(
        "finite-minimum",
        ("-mx.inf", "mx.finfo(logits.dtype).min"),
        fact="the dropped logits become the dtype's most negative finite number instead of -inf",
        question="The next step doubles the logits. Which negative float stays what it is, however it is scaled?",
    )
    exact = "logits = (exact - mx.logsumexp(exact, axis=-1, keepdims=True)).astype(logits.dtype)"
    known.change(
        "log-probabilities",
        (begins, f"exact = logits.astype(mx.float32)\n{exact}\n{begins}"),
        fact="log-probabilities are returned instead of logits",
        question="What should the value of a logit that is kept be?",
    )
    known.change(
        "in-place",
        ("return mx.where(", "logits[:] = mx.where("),
        ("logits, -mx.inf)", "logits, -mx.inf)\nreturn logits"),
        fact="the caller's logits are overwritten",
        question="What does `logits[...] = -mx.inf` do to the array that the caller passed?",
    )
