"""Logits and targets for the tests and known programs of day 2."""

import mlx.core as mx
import numpy as np
from tests.week5.formulas_day2 import IGNORE

from tiny_llm_course.testkit.inputs import normals


def logits_and_targets(
    seed: int,
    dtype: mx.Dtype = mx.float32,
    leading: tuple[int, ...] = (3, 4),
    size: int = 7,
    spread: float = 1.0,
    ignored: float = 0.0,
) -> tuple[mx.array, mx.array]:
    """Return logits and targets, among them the last of the vocabulary, a share of them ignored, not all."""
    generator = np.random.default_rng(seed + 1000)
    targets = generator.integers(0, size, leading)
    targets = np.where(generator.random(leading) < 0.2, size - 1, targets)
    hidden = generator.random(leading) < ignored
    if hidden.all():
        hidden = np.zeros(leading, bool)
    targets = np.where(hidden, IGNORE, targets)
    return normals(seed, dtype)(*leading, size, spread=spread), mx.array(targets.astype(np.int32))


def far(dtype: mx.Dtype, shift: float) -> tuple[mx.array, mx.array]:
    """Return logits that are far apart and far from zero, and targets."""
    logits, targets = logits_and_targets(4, ignored=0.3)
    return (logits * 100 + shift).astype(dtype), targets


def padded(seed: int, ignore_index: int) -> tuple[mx.array, mx.array, int]:
    """Return logits, targets of which some are ignore_index, and ignore_index."""
    logits, targets = logits_and_targets(seed, ignored=0.4)
    return logits, mx.where(targets == IGNORE, ignore_index, targets), ignore_index
