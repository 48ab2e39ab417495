"""Seeded inputs of graded checks."""

import itertools
import math
from collections.abc import Callable

import mlx.core as mx
import numpy as np

DTYPES = [mx.float32, mx.float16, mx.bfloat16]


def normals(seed: int, dtype: mx.Dtype = mx.float32) -> Callable[..., mx.array]:
    """Return a source of signed, normally distributed arrays: `draw(3, 4, spread=0.5)`. Same seed, same numbers."""
    generator = np.random.default_rng(seed)

    def draw(*shape: int, spread: float = 1.0) -> mx.array:
        return mx.array((generator.standard_normal(shape) * spread).astype(np.float32)).astype(dtype)

    return draw


def drawn(seed: int, *shapes: tuple[int, ...], dtype: mx.Dtype = mx.float32) -> list[mx.array]:
    """Return an array of each shape, drawn one after the other from the same `normals`."""
    draw = normals(seed, dtype)
    return [draw(*shape) for shape in shapes]


def distinct(seed: int, dtype: mx.Dtype, rows: int, size: int, spread: float = 1.0, shift: float = 0.0) -> mx.array:
    """Return rows x size seeded normal numbers around `shift`, no two equal in a row, in their dtype."""
    numbers = (normals(seed)(max(64 * size, 1000), spread=spread) + shift).astype(dtype)
    different = np.unique(np.array(numbers.astype(mx.float32)))
    generator = np.random.default_rng(seed)
    drawn = [generator.choice(different, size, replace=False) for _ in range(rows)]
    return mx.array(np.array(drawn)).astype(dtype)


def forbidding(seed: int, x: mx.array, axis: int = -1) -> mx.array:
    """Return the same numbers with about half of them -inf, never all along the axis."""
    chance = normals(seed)(*x.shape)
    return mx.where((chance < 0) & (chance > mx.min(chance, axis=axis, keepdims=True)), -mx.inf, x)


# Added to scores: far from 0 on both sides, beyond the finite numbers that programs use for infinity.
SHIFTS = (0, -20000, 20000, -1000, 300)

MASKS = ("none", "bias", "forbidding", "huge", "huge row")
NAMED_MASKS = ("causal", *MASKS[:3], "huge row")  # for programs that also take a mask by name


def broadcasting(*shape: int) -> list[tuple[int, ...]]:
    """Return all shapes that broadcast to this one, the smallest first: axes may be 1, leading axes missing."""
    ends = [shape[first:] for first in range(len(shape) + 1)]
    return sorted({each for end in ends for each in itertools.product(*((1, n) for n in end))}, key=math.prod)


def mask_of(sort: str, seed: int, dtype: mx.Dtype, *shape: int) -> mx.array | str | None:
    """Return an additive mask, .. x S; "huge" forbids by -1e9, "huge row" is near -1e5, forbids nothing (float32)."""
    bias = normals(seed)(*shape)
    match sort:
        case "none":
            return None
        case "causal":
            return sort
        case "bias":
            return bias.astype(dtype)
        case "forbidding":
            return forbidding(seed, mx.zeros(shape)).astype(dtype)
        case "huge":
            return mx.where(mx.isinf(forbidding(seed, bias)), -1e9, bias)
        case _:
            return bias - 1e5


def token_ids(seed: int, vocab_size: int, count: int) -> list[int]:
    """Return seeded token ids, including the last one of the vocabulary if there are any."""
    drawn: list[int] = np.random.default_rng(seed).integers(0, vocab_size, count).tolist()
    return [*drawn[1:], vocab_size - 1] if drawn else []


def causal(length: int, keys: int, dtype: mx.Dtype) -> mx.array:
    """Return an additive mask, length x keys: query i may see key j up to j = i + keys - length."""
    return mx.array(np.triu(np.full((length, keys), -np.inf, np.float32), k=keys - length + 1)).astype(dtype)
