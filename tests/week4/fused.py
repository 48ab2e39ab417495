"""Helpers for the tests of day 2: fused features, masks, and access to one of a program's results."""

from typing import Any

import mlx.core as mx
import pytest

from tiny_llm_course.testkit.cases import type_words
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.inputs import forbidding, normals

by_layout = pytest.mark.parametrize("layout", ["blocks", "interleaved"])


def one_of(found: Any, part: str, *names: str) -> Any:
    """Return the named part of a program's several results."""
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
    """Return a mask that allows about half of the keys, at least one per query."""
    return mx.isfinite(forbidding(seed, mx.zeros(shape)))
