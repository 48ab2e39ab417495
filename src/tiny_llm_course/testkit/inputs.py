"""Seeded inputs of graded checks."""

from collections.abc import Callable

import mlx.core as mx
import numpy as np

DTYPES = [mx.float32, mx.float16, mx.bfloat16]


def normals(seed: int, dtype: mx.Dtype = mx.float32) -> Callable[..., mx.array]:
    """A source of signed, normally distributed arrays: `draw(3, 4, spread=0.5)`. Same seed, same numbers."""
    generator = np.random.default_rng(seed)

    def draw(*shape: int, spread: float = 1.0) -> mx.array:
        return mx.array((generator.standard_normal(shape) * spread).astype(np.float32)).astype(dtype)

    return draw


def token_ids(seed: int, vocab_size: int, count: int) -> list[int]:
    """Seeded token ids, the last one of the vocabulary among them if there are any."""
    drawn: list[int] = np.random.default_rng(seed).integers(0, vocab_size, count).tolist()
    return [*drawn[1:], vocab_size - 1] if drawn else []


def causal(length: int, keys: int, dtype: mx.Dtype) -> mx.array:
    """An additive mask, `length x keys`: query i may look at key j up to j = i + keys - length."""
    return mx.array(np.triu(np.full((length, keys), -np.inf, np.float32), k=keys - length + 1)).astype(dtype)
