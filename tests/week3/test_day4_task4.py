"""Week 3, day 4, task 4: in Metal.

Expected is attention over the request's gathered keys and values.
"""

import mlx.core as mx
import pytest
from tests.week2.formulas_day7 import far_below_zero, many_small_weights
from tests.week3.formulas_day4 import (
    HEADS,
    HELD,
    by_mlx,
    by_torch,
    paged64,
    paged_inputs,
    pooled,
    with_held,
)

from tiny_llm.metal import paged as in_metal
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.kernels import costs_at_most
from tiny_llm_course.testkit.marks import by_dtype, on
from tiny_llm_course.testkit.sizes import sweep

by_heads = pytest.mark.parametrize(("heads", "kv_heads"), HEADS)


def metal_inputs(seed, length, tokens, page=16, dims=8, dtype=mx.float32, **more):
    """Two heads that share keys."""
    return paged_inputs(seed, length, tokens, page, 2, 1, dims, dtype, **more)


def metal(query, keys, values, table, tokens, scale=None):
    return in_metal.paged_attention(query, keys, values, table, tokens, scale)


@by_dtype
def test_task_4_metal_formula(dtype):
    agrees(metal, paged64, *paged_inputs(1, dtype=dtype), seed=1)


def test_task_4_metal_scaled_in_float32():
    """float16 cannot hold a query times scale, but float32 can."""
    queries, keys, *rest = paged_inputs(6, dtype=mx.float16)
    agrees(metal, paged64, 64 * queries, keys * 2**-13, *rest, 1024.0, seed=6)


@pytest.mark.parametrize("length", [1, 3, 15, 16, 17, 33])
def test_task_4_metal_queries(length):
    """Fewer queries than a tile has, as many, more."""
    agrees(metal, paged64, *metal_inputs(2, length, 35), seed=2)


@pytest.mark.parametrize("tokens", [1, 2, 31, 32, 33, 64, 65, 100])
def test_task_4_metal_tokens(tokens):
    """One query: fewer keys than a tile has, as many, more."""
    agrees(metal, paged64, *metal_inputs(3, 1, tokens), seed=3)


@pytest.mark.parametrize("page", [1, 3, 16, 20, 32, 33, 64])
def test_task_4_metal_sizes(page):
    """A tile of 32 keys ends at a page boundary, or inside a page; a page is shorter than a tile, or longer."""
    agrees(metal, paged64, *metal_inputs(4, 3, 70, page), seed=4)


@pytest.mark.parametrize(("length", "tokens"), [(9, 9), (17, 17), (33, 33), (5, 32), (5, 33), (18, 66), (33, 97)])
def test_task_4_metal_causal_blocks(length, tokens):
    """The diagonal crosses a tile, or follows its edge; the last tile of keys is masked for some queries."""
    agrees(metal, paged64, *metal_inputs(5, length, tokens), seed=5)


@pytest.mark.parametrize("dims", [1, 7, 31, 32, 33, 64, 80, 128])
def test_task_4_metal_dims(dims):
    agrees(metal, paged64, *metal_inputs(6, 3, 7, 4, dims), seed=6)


@by_heads
def test_task_4_metal_heads(heads, kv_heads):
    agrees(metal, paged64, *paged_inputs(7, heads=heads, kv_heads=kv_heads), seed=7)


@pytest.mark.parametrize("scale", [1.0, 0.0, -0.3])
def test_task_4_metal_scale(scale):
    agrees(metal, paged64, *metal_inputs(8, 4, 40), scale, seed=8)


@pytest.mark.parametrize("tokens", [10, 12])
@pytest.mark.parametrize("held", HELD)
def test_task_4_metal_ignores_other_slots(held, tokens):
    """In the rest of the last page, in other requests' pages, and in allocated pages without tokens yet."""
    agrees(metal, paged64, *with_held(metal_inputs(9, 3, tokens, 4, spare=1), held), seed=9)


def test_task_4_metal_weights():
    """The values are the rows of an identity matrix, so the output is the weights."""
    query, keys, _, _, _ = metal_inputs(10, 5, 40, 40, 40, others=0)
    agrees(metal, paged64, query, keys, mx.eye(40)[None, None], [0], 40, seed=10)


def test_task_4_metal_large_scores():
    """exp(300) overflows float32: weights are relative to the maximum score."""
    query, *rest = metal_inputs(11, 18, 70)
    agrees(metal, paged64, 40 * query, *rest, 2.0, seed=11)


def test_task_4_metal_scores_far_below_zero():
    """Scores of about -20,000: the maximum starts below any of them, and a hidden key has no weight."""
    query, keys, *rest = metal_inputs(19, 18, 70)
    agrees(metal, paged64, *far_below_zero(query, keys), *rest, 1.0, seed=19)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_4_metal_many_small_weights(dtype):
    """The sums of the weights and of the weighted values are float32: narrow ones stop growing."""
    query, keys, values = many_small_weights(dtype, 1, 1, 1)
    agrees(metal, paged64, query, keys[None], values[None], [0], 3201, 1.0, seed=20)


def test_task_4_metal_equal_scores():
    """With zero queries, the result is the mean of all visible values."""
    query, *rest = metal_inputs(12, 5, 70)
    agrees(metal, paged64, 0 * query, *rest, seed=12)


def test_task_4_metal_mlx():
    inputs = paged_inputs(13)
    agrees(metal, paged64, *inputs, 0.5, seed=13, expected=by_mlx(*inputs, 0.5))


def test_task_4_metal_pytorch(pytorch):
    inputs = paged_inputs(14, 11)
    agrees(metal, paged64, *inputs, 0.5, seed=14, expected=by_torch(pytorch, *inputs))


@by_dtype
def test_task_4_metal_moves(dtype):
    """Queries, output, keys and values of whole tiles, and per tile two cache lines of the block table a SIMD-group."""
    query, *rest = paged_inputs(15, 32, 96, 8, 1, 1, 32, dtype)
    blocks = 3 + 3
    moved = 2 * query.nbytes + 2 * blocks * 32 * 32 * dtype.size + blocks * 4 * 2 * 64
    costs_at_most(metal, query, *rest, seed=15, moved=moved)


def test_task_4_metal_skipped_blocks_are_not_moved():
    """Of a prompt of 96 tokens the first 32 queries need one tile of keys, the next 32 two, the last 32 three."""
    query, *rest = paged_inputs(16, 96, 96, 8, 1, 1, 32)
    blocks = 2 * (1 + 2 + 3)
    moved = 2 * query.nbytes + 2 * blocks * 32 * 32 * 4 + blocks * 4 * 2 * 64
    costs_at_most(metal, query, *rest, seed=16, moved=moved)


def test_task_4_metal_banks():
    """No bank conflicts."""
    costs_at_most(metal, *metal_inputs(17, 16, 64, 16, 128), seed=17, bank_conflicts=0)


@on("gpu")
def test_task_4_metal_on_the_gpu():
    for dtype in DTYPES:
        for length in (1, 37):
            agrees(metal, paged64, *paged_inputs(18, length, 131, 16, dims=128, dtype=dtype), seed=18)


def test_task_4_metal_sweep():
    for n in sweep(K=5, G=4, L=40, X=140, D=65, P=40):
        tokens = n.L + n.X - 1
        keys, values, table = pooled(n.seed, tokens, n.P, n.K, n.D, n.dtype, spare=n.turn(0, 1))
        query = normals(n.seed + 2, n.dtype)(n.L, n.K * n.G, n.D, spread=min(n.spread, 30.0))
        agrees(metal, paged64, query, keys, values * n.spread, table, tokens, n.turn(None, -0.7, 2.5), seed=n)
