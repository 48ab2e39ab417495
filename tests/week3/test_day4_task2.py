"""Week 3, day 4, task 2: one token in C++.

Expected is the formula in float64, over the request's gathered keys and values.
"""

import math

import mlx.core as mx
import pytest
from tests.week3.formulas_day4 import (
    HELD,
    by_mlx,
    group64,
    pooled,
    with_held,
)

from tiny_llm.paged import kernels
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import fast
from tiny_llm_course.testkit.sizes import sweep


def group_inputs(seed, tokens=11, page=4, group=3, kv_heads=2, dims=16, kv_head=1, **more):
    """Queries of one group, keys, values, block table, tokens and their KV head."""
    keys, values, table = pooled(seed, tokens, page, kv_heads, dims, **more)
    return normals(seed + 2)(group, dims), keys, values, table, tokens, kv_head


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 5, 7, 8, 9, 15, 33])
def test_task_2_attend_tokens(tokens):
    """Part of a page, a whole one, one token more."""
    agrees(kernels.paged_attend, group64, *group_inputs(1, tokens), 0.3, seed=1)


@pytest.mark.parametrize("page", [1, 2, 3, 5, 8, 16, 32])
def test_task_2_attend_sizes(page):
    agrees(kernels.paged_attend, group64, *group_inputs(2, 37, page), 0.3, seed=2)


@pytest.mark.parametrize(("kv_head", "kv_heads"), [(0, 1), (0, 2), (1, 2), (0, 5), (2, 5), (4, 5)])
def test_task_2_attend_heads(kv_head, kv_heads):
    agrees(kernels.paged_attend, group64, *group_inputs(3, kv_heads=kv_heads, kv_head=kv_head), 0.3, seed=3)


@pytest.mark.parametrize("group", [1, 2, 4, 5])
def test_task_2_attend_groups(group):
    agrees(kernels.paged_attend, group64, *group_inputs(4, group=group), 0.3, seed=4)


@pytest.mark.parametrize("dims", [1, 4, 7, 16, 20, 64, 128])
def test_task_2_attend_dims(dims):
    agrees(kernels.paged_attend, group64, *group_inputs(5, dims=dims), 1 / math.sqrt(dims), seed=5)


@pytest.mark.parametrize("tokens", [10, 12])
@pytest.mark.parametrize("held", HELD)
def test_task_2_attend_ignores_other_slots(held, tokens):
    """In the rest of the last page, in other requests' pages, and in allocated pages without tokens yet."""
    *inputs, kv_head = group_inputs(6, tokens, spare=1)
    agrees(kernels.paged_attend, group64, *with_held(inputs, held), kv_head, 0.3, seed=6)


def test_task_2_attend_equal_scores():
    """With zero queries, the result is the mean of all values."""
    queries, *rest = group_inputs(7)
    agrees(kernels.paged_attend, group64, 0 * queries, *rest, 0.3, seed=7)


def test_task_2_attend_large_scores():
    """exp(300) overflows float32: weights are relative to the maximum score."""
    queries, *rest = group_inputs(8)
    agrees(kernels.paged_attend, group64, 200 * queries, *rest, 1.0, seed=8)


def test_task_2_attend_scores_far_below_zero():
    """exp(-160) is 0 in float32: the maximum of a head may itself be far below 0."""
    queries, keys, *rest = group_inputs(10)
    agrees(kernels.paged_attend, group64, -20 - mx.abs(queries), 1 + mx.abs(keys), *rest, 1.0, seed=10)


def test_task_2_attend_many_scores():
    """100,000 scores: any number of heads and tokens, not only those that fit a buffer of a fixed size."""
    agrees(kernels.paged_attend, group64, *group_inputs(11, 20000, 1000, 5, 1, 2, 0), 0.5, seed=11)


def test_task_2_attend_mlx():
    queries, keys, values, table, tokens, kv_head = inputs = group_inputs(9)
    own = keys[:, kv_head : kv_head + 1], values[:, kv_head : kv_head + 1]
    expected = by_mlx(queries[None], *own, table, tokens, 0.3)[0]
    agrees(kernels.paged_attend, group64, *inputs, 0.3, seed=9, expected=expected)


def test_task_2_attend_sweep():
    for n in sweep(K=20, G=9, S=1100, D=257, P=130):
        if n.dtype != mx.float32:
            continue
        keys, values, table = pooled(n.seed, n.S, n.P, n.K, n.D, spare=n.turn(0, 1))
        queries = normals(n.seed + 2)(n.G, n.D, spread=min(n.spread, 30.0))
        given = queries, keys, values * n.spread, table, n.S, n.turn(0, n.K - 1, n.K // 2)
        agrees(fast(kernels.paged_attend), group64, *given, n.turn(0.3, 1.0), seed=n)
