"""What the tests of day 2 share: fused features, masks, and one of the arrays that a program gives."""

from typing import Any

import mlx.core as mx
import pytest

from tiny_llm_course.testkit.cases import type_words
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.inputs import forbidding, normals

by_layout = pytest.mark.parametrize("layout", ["blocks", "interleaved"])


def one_of(found: Any, part: str, *names: str) -> Any:
    """The part of that name, of a program that gives several arrays."""
    if not isinstance(found, tuple) or len(found) != len(names):
        fail(Kind.TYPE, f"returned {type_words(found)}, expected a tuple: {', '.join(names)}", "")
    return found[names.index(part)]


def fused_features(
    seed: int,
    heads: int = 6,
    kv_heads: int = 3,
    dims: int = 5,
    leading: tuple[int, ...] = (2,),
    length: int = 4,
    dtype: mx.Dtype = mx.float32,
) -> mx.array:
    """N, L, H, H_kv and D all differ."""
    return normals(seed, dtype)(*leading, length, (heads + 2 * kv_heads) * dims)


def looks(seed: int, *shape: int) -> mx.array:
    """About half of the keys may be looked at, by every query at least one."""
    return mx.isfinite(forbidding(seed, mx.zeros(shape)))
