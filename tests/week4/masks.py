"""Boolean masks, and sizes that a mask may be read wrong with: for the tests and known programs of day 1."""

import mlx.core as mx
import pytest

from tiny_llm_course.testkit.inputs import normals

# B, H, L and S: all different, then every two of them that a mask may be read wrong with, then texts and heads of one.
DIFFERENT = (2, 3, 4, 5)
CONFUSED = [
    (3, 3, 4, 5),
    (4, 3, 4, 5),
    (2, 4, 4, 5),
    (2, 3, 5, 5),
    (1, 3, 4, 5),
    (2, 1, 4, 5),
    (2, 3, 1, 5),
    (3, 3, 3, 3),
]
SIZES = pytest.mark.parametrize("sizes", [DIFFERENT, *CONFUSED], ids=str)


def may_look(seed: int, *shape: int) -> mx.array:
    """A boolean mask, which hides about half of everything and may hide whole rows."""
    return normals(seed)(*shape) < 0


def seeing(seed: int, *shape: int) -> mx.array:
    """The same, but every query sees the first key."""
    return may_look(seed, *shape) | (mx.arange(shape[-1]) == 0)


def blind(seed: int, *shape: int) -> mx.array:
    """A boolean mask that hides everything from every third query, and about half from the others."""
    return seeing(seed, *shape) & (mx.arange(shape[-2])[:, None] % 3 != 1)


def small_heads(
    seed: int, dtype: mx.Dtype = mx.float32, heads: int = 3, length: int = 4, keys: int = 5
) -> tuple[mx.array, mx.array, mx.array]:
    """Queries, keys and values of two texts, with 6 features, as the known programs are given them."""
    draw = normals(seed, dtype)
    return draw(2, heads, length, 6), draw(2, heads, keys, 6), draw(2, heads, keys, 6)
