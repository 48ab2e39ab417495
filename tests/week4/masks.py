"""Boolean masks, and sizes at which a mask can be misread: for the tests and known programs of day 1."""

import mlx.core as mx
import pytest

from tiny_llm_course.testkit.inputs import normals

# B, H, L and S: all different, then equal pairs at which a mask can be misread, then one sequence and one head
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
    """Return a boolean mask that hides about half of all keys and may mask whole rows."""
    return normals(seed)(*shape) < 0


def seeing(seed: int, *shape: int) -> mx.array:
    """The same, but every query sees the first key."""
    return may_look(seed, *shape) | (mx.arange(shape[-1]) == 0)


def blind(seed: int, *shape: int) -> mx.array:
    """Return a boolean mask that masks every third row fully, and about half of the others."""
    return seeing(seed, *shape) & (mx.arange(shape[-2])[:, None] % 3 != 1)


def small_heads(
    seed: int, dtype: mx.Dtype = mx.float32, heads: int = 3, length: int = 4, keys: int = 5
) -> tuple[mx.array, mx.array, mx.array]:
    """Return queries, keys and values of two sequences, with 6 features, as the known programs get them."""
    draw = normals(seed, dtype)
    return draw(2, heads, length, 6), draw(2, heads, keys, 6), draw(2, heads, keys, 6)
