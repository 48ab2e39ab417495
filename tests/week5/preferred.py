"""Inputs for the tests and known programs of day 6: log-probabilities of pairs and of groups of completions."""

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.inputs import normals


def pairs(seed: int, dtype: mx.Dtype = mx.float32, count: int = 5) -> tuple[mx.array, ...]:
    """Return the log-probabilities of chosen and rejected answers, under the policy and under the reference."""
    draw = normals(seed, dtype)
    lengths = [-20.0, -24.0, -20.5, -23.0]  # chosen, rejected, and the reference's
    return tuple((draw(count, spread=3.0) + mean).astype(dtype) for mean in lengths)


def completions(
    seed: int, count: int = 4, length: int = 6, spread: float = 0.3, shown: float = 0.6
) -> tuple[mx.array, ...]:
    """Return log-probabilities of policy, sampler and reference, advantages of both signs, and a mask.

    Each row has a prompt, a completion and padding, of different lengths; some rows have no padding.
    """
    draw = normals(seed)
    sampler = -mx.abs(draw(count, length)) - 0.5
    policy, reference = sampler + draw(count, length, spread=spread), sampler + draw(count, length, spread=spread)
    advantages = draw(count)
    generator = np.random.default_rng([seed, 6])
    mask = np.zeros((count, length), bool)
    for row in mask:
        first = int(generator.integers(0, max(1, round(length * (1 - shown)) + 1)))
        last = int(generator.integers(min(first + 1, length), length + 1))
        row[min(first, length - 1) : last] = True
    return policy, sampler, reference, advantages, mx.array(mask)
