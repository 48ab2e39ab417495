"""Week 3, day 4: attention over pages in arrays, for one token and for a prompt in C++, and in Metal.

What is expected is attention over the request's keys and values side by side, by the formula in float64, by MLX's
operator and by PyTorch: in which pages they lie must make no difference. The numbers in all other places of the pool
are of other requests, or NaN.
"""

import math

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.formulas_day4 import (
    HEADS,
    HELD,
    by_mlx,
    by_torch,
    group64,
    paged64,
    paged_inputs,
    pooled,
    with_held,
)

from tiny_llm.metal import paged as in_metal
from tiny_llm.paged import attention, kernels
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.kernels import costs_at_most, fast
from tiny_llm_course.testkit.marks import by_dtype, on
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep

by_heads = pytest.mark.parametrize(("heads", "kv_heads"), HEADS)


# Task 1, attention over pages


def paged(query, keys, values, table, tokens, scale=None):
    return attention.paged_attention(query, keys, values, table, tokens, scale)


@by_dtype
def test_task_1_pages_formula(dtype):
    agrees(paged, paged64, *paged_inputs(1, dtype=dtype), seed=1)


@pytest.mark.parametrize("tokens", [1, 3, 4, 5, 7, 8, 9])
def test_task_1_pages_one_query(tokens):
    """A part of a page, a whole one, one token more."""
    agrees(paged, paged64, *paged_inputs(2, 1, tokens), seed=2)


@pytest.mark.parametrize("page", [1, 2, 3, 5, 8, 16])
def test_task_1_pages_sizes(page):
    agrees(paged, paged64, *paged_inputs(3, page=page), seed=3)


@pytest.mark.parametrize(("length", "tokens"), [(9, 9), (8, 8), (4, 9), (2, 13), (8, 12)])
def test_task_1_pages_causal(length, tokens):
    """The queries are in one page, or in several; the first ones do not see the last page."""
    agrees(paged, paged64, *paged_inputs(4, length, tokens), seed=4)


@by_heads
def test_task_1_pages_heads(heads, kv_heads):
    agrees(paged, paged64, *paged_inputs(5, heads=heads, kv_heads=kv_heads), seed=5)


@pytest.mark.parametrize("scale", [1.0, 0.0, -0.3])
def test_task_1_pages_scale(scale):
    agrees(paged, paged64, *paged_inputs(6), scale, seed=6)


def test_task_1_pages_scaled_out_of_half():
    """float16 cannot hold a query times scale, and what is computed in float32 can."""
    queries, keys, *rest = paged_inputs(6, dtype=mx.float16)
    agrees(paged, paged64, 64 * queries, keys * 2**-13, *rest, 1024.0, seed=6)


def test_task_1_pages_room_to_spare():
    """The table has two pages more than the tokens fill."""
    agrees(paged, paged64, *paged_inputs(7, spare=2), seed=7)


@pytest.mark.parametrize("tokens", [10, 12])
@pytest.mark.parametrize("held", HELD)
def test_task_1_pages_others_are_not_looked_at(held, tokens):
    """In the rest of the last page, in pages that are not the request's, and in those that no token has come to."""
    agrees(paged, paged64, *with_held(paged_inputs(8, 3, tokens, spare=1), held), seed=8)


def test_task_1_pages_shared():
    """Two requests that begin alike have their first page in common; their second pages differ."""
    query, keys, values, _, _ = paged_inputs(9)
    for table in ([2, 0, 4], [2, 5, 1]):
        agrees(paged, paged64, query, keys, values, table, 11, seed=9)


@pytest.mark.parametrize("rising", [True, False])
def test_task_1_pages_moving_maximum(rising):
    """The largest score of each page is larger, or smaller, than that of the page before."""
    query, keys, values, table, tokens = paged_inputs(10, 2, 18)
    order = mx.array([table.index(page) if page in table else 0 for page in range(keys.shape[0])])
    keys = keys + (order if rising else -order)[:, None, None, None]
    agrees(paged, paged64, mx.abs(query), keys, values, table, tokens, seed=10)


def test_task_1_pages_large_scores():
    """exp(300) is more than float32 holds: scores count relative to the largest."""
    query, *rest = paged_inputs(11)
    agrees(paged, paged64, 200 * query, *rest, 2.0, seed=11)


def test_task_1_pages_equal_scores():
    """With queries of zeros it is the mean of all values that a query sees."""
    query, *rest = paged_inputs(12)
    agrees(paged, paged64, 0 * query, *rest, seed=12)


def test_task_1_pages_mlx():
    inputs = paged_inputs(13)
    agrees(paged, paged64, *inputs, 0.5, seed=13, expected=by_mlx(*inputs, 0.5))


def test_task_1_pages_pytorch(pytorch):
    inputs = paged_inputs(14, 11)
    agrees(paged, paged64, *inputs, 0.5, seed=14, expected=by_torch(pytorch, *inputs))


def test_task_1_pages_holds_no_copy():
    """A long context, which its keys and values are large beside all else of."""
    query, keys, values, table, tokens = paged_inputs(15, 1, 4096, 32, 2, 1, 128)
    agrees(paged, paged64, *paged_inputs(15), seed=15)
    case = "float32, query 1 x 2 x 128, 131 pages of 32 tokens, of which the table has 128, tokens 4096, seed 15"
    run = lambda: paged(query, keys, values, table, tokens)  # noqa: E731
    holds_less(run, keys.nbytes // 2, "half of the request's keys", case=case)


def test_task_1_pages_sweep():
    for n in sweep(K=9, G=5, L=40, X=300, D=131, P=66):
        tokens = n.L + n.X - 1
        page = n.P if tokens / n.P < 100 else 16
        keys, values, table = pooled(n.seed, tokens, page, n.K, n.D, n.dtype, spare=n.turn(0, 1))
        query = normals(n.seed + 2, n.dtype)(n.L, n.K * n.G, n.D, spread=min(n.spread, 30.0))
        agrees(paged, paged64, query, keys, values * n.spread, table, tokens, n.turn(None, -0.7, 2.5), seed=n)


@property_test
@given(order=st.permutations(range(6)), seed=st.integers(0, 99))
def test_task_1_pages_place_makes_no_difference(order, seed):
    """The same tokens in other pages of the pool."""
    query, keys, values, table, tokens = paged_inputs(seed)
    moved = [order.index(page) for page in table]
    expected = paged64(*map(to_float64, (query, keys, values)), table, tokens)
    where = mx.array(order)
    agrees(paged, paged64, query, keys[where], values[where], moved, tokens, seed=seed, expected=expected)


def test_task_1_pages_refuses_uneven_groups():
    inputs = paged_inputs(16, heads=5)
    with raises_value_error("float32, query 4 x 5 x 8, keys 6 x 2 x 4 x 8, values 6 x 2 x 4 x 8"):
        mx.eval(paged(*inputs))


def test_task_1_pages_refuses_more_queries_than_tokens():
    query, keys, values, table, _ = paged_inputs(17)
    with raises_value_error("float32, query 4 x 6 x 8, keys 6 x 2 x 4 x 8, values 6 x 2 x 4 x 8, tokens 3"):
        mx.eval(paged(query, keys, values, table, 3))


def test_task_1_pages_refuses_more_tokens_than_there_is_room_for():
    query, keys, values, table, _ = paged_inputs(18)
    with raises_value_error(
        f"float32, query 4 x 6 x 8, keys 6 x 2 x 4 x 8, values 6 x 2 x 4 x 8, table {table}, tokens 13"
    ):
        mx.eval(paged(query, keys, values, table, 13))


# Task 2, one token in C++


def group_inputs(seed, tokens=11, page=4, group=3, kv_heads=2, dims=16, kv_head=1, **more):
    """Queries of one group, keys, values, table, tokens and the head that they read."""
    keys, values, table = pooled(seed, tokens, page, kv_heads, dims, **more)
    return normals(seed + 2)(group, dims), keys, values, table, tokens, kv_head


@pytest.mark.parametrize("tokens", [1, 2, 3, 4, 5, 7, 8, 9, 15, 33])
def test_task_2_attend_tokens(tokens):
    """A part of a page, a whole one, one token more."""
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
def test_task_2_attend_others_are_not_looked_at(held, tokens):
    """In the rest of the last page, in pages that are not the request's, and in those that no token has come to."""
    *inputs, kv_head = group_inputs(6, tokens, spare=1)
    agrees(kernels.paged_attend, group64, *with_held(inputs, held), kv_head, 0.3, seed=6)


def test_task_2_attend_equal_scores():
    """With queries of zeros it is the mean of all values."""
    queries, *rest = group_inputs(7)
    agrees(kernels.paged_attend, group64, 0 * queries, *rest, 0.3, seed=7)


def test_task_2_attend_large_scores():
    """exp(300) is more than float32 holds: scores count relative to the largest."""
    queries, *rest = group_inputs(8)
    agrees(kernels.paged_attend, group64, 200 * queries, *rest, 1.0, seed=8)


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


# Task 3, a prompt in C++


@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 95, 96, 97, 98, 193, 290])
def test_task_3_flash_decode(tokens):
    """One query: fewer keys than a block has, as many, more."""
    agrees(kernels.paged_flash, paged64, *paged_inputs(1, 1, tokens, 16), 0.4, seed=1)


@pytest.mark.parametrize("length", [2, 3, 16, 17, 23, 24, 25, 49])
def test_task_3_flash_prefill(length):
    """Fewer queries than a block has, as many, more; with no token before them."""
    agrees(kernels.paged_flash, paged64, *paged_inputs(2, length, length, 16), 0.4, seed=2)


@pytest.mark.parametrize(("length", "tokens"), [(5, 96), (5, 98), (26, 97), (30, 200), (98, 98)])
def test_task_3_flash_tokens_before(length, tokens):
    """A prompt that goes on: the last block of keys is hidden from some queries, or from some of a block."""
    agrees(kernels.paged_flash, paged64, *paged_inputs(3, length, tokens, 16, 2, 1), 0.4, seed=3)


@pytest.mark.parametrize("page", [1, 2, 5, 20, 32, 95, 96, 97, 200])
def test_task_3_flash_sizes(page):
    """A block of 96 keys ends where a page ends, or within one; a page is shorter than a block, or longer."""
    agrees(kernels.paged_flash, paged64, *paged_inputs(4, 3, 210, page, 2, 1), 0.4, seed=4)


@pytest.mark.parametrize("dims", [1, 4, 7, 16, 20, 36, 64, 128])
def test_task_3_flash_dims(dims):
    agrees(kernels.paged_flash, paged64, *paged_inputs(5, dims=dims), 1 / math.sqrt(dims), seed=5)


@by_heads
def test_task_3_flash_heads(heads, kv_heads):
    agrees(kernels.paged_flash, paged64, *paged_inputs(6, heads=heads, kv_heads=kv_heads), 0.5, seed=6)


@pytest.mark.parametrize("tokens", [10, 12])
@pytest.mark.parametrize("held", HELD)
def test_task_3_flash_others_are_not_looked_at(held, tokens):
    """In the rest of the last page, in pages that are not the request's, and in those that no token has come to."""
    agrees(kernels.paged_flash, paged64, *with_held(paged_inputs(7, 3, tokens, spare=1), held), 0.4, seed=7)


def test_task_3_flash_equal_scores():
    """With queries of zeros it is the mean of all values that a query sees."""
    queries, *rest = paged_inputs(8, 5, 200, 16, 2, 1)
    agrees(kernels.paged_flash, paged64, 0 * queries, *rest, 0.5, seed=8)


def test_task_3_flash_large_scores():
    """exp(300) is more than float32 holds: scores count relative to the largest."""
    queries, *rest = paged_inputs(9, 30, 130, 16, 2, 1)
    agrees(kernels.paged_flash, paged64, 40 * queries, *rest, 2.0, seed=9)


def test_task_3_flash_scores_far_below_zero():
    """exp(-160) is 0 in float32: the largest score of a query may itself be far below 0."""
    queries, keys, *rest = paged_inputs(13, 30, 130, 16, 2, 1)
    agrees(kernels.paged_flash, paged64, -20 - mx.abs(queries), 1 + mx.abs(keys), *rest, 1.0, seed=13)


def test_task_3_flash_mlx():
    inputs = paged_inputs(10, 26, 110, 16, 4, 2)
    agrees(kernels.paged_flash, paged64, *inputs, 0.5, seed=10, expected=by_mlx(*inputs, 0.5))


def test_task_3_flash_pytorch(pytorch):
    inputs = paged_inputs(11, 11)
    agrees(kernels.paged_flash, paged64, *inputs, 0.5, seed=11, expected=by_torch(pytorch, *inputs))


def test_task_3_flash_again_and_again():
    """The fast build, many times: whoever takes which block, nothing else comes out."""
    inputs = paged_inputs(12, 100, 150, 16)
    expected = paged64(*map(to_float64, inputs[:3]), *inputs[3:], 0.5)
    kernels.paged_flash(*paged_inputs(12), 0.5)  # watched: what has done nothing wrong may be run fast
    for _ in range(30):
        again = fast(kernels.paged_flash)(*inputs, 0.5)
        compare(again, expected, mx.float32, 1e-5, "float32, query 100 x 6 x 8, one call of 30, seed 12", 4800)


def test_task_3_flash_sweep():
    for n in sweep(K=20, G=9, L=260, X=1100, D=257, P=130):
        if n.dtype != mx.float32:
            continue
        tokens = n.L + n.X - 1
        keys, values, table = pooled(n.seed, tokens, n.P, n.K, n.D, spare=n.turn(0, 1))
        queries = normals(n.seed + 2)(n.L, n.K * n.G, n.D, spread=min(n.spread, 30.0))
        agrees(fast(kernels.paged_flash), paged64, queries, keys, values, table, tokens, n.turn(0.3, 1.0), seed=n)


# Task 4, in Metal


def metal_inputs(seed, length, tokens, page=16, dims=8, dtype=mx.float32, **more):
    """Two heads that share keys."""
    return paged_inputs(seed, length, tokens, page, 2, 1, dims, dtype, **more)


def metal(query, keys, values, table, tokens, scale=None):
    return in_metal.paged_attention(query, keys, values, table, tokens, scale)


@by_dtype
def test_task_4_metal_formula(dtype):
    agrees(metal, paged64, *paged_inputs(1, dtype=dtype), seed=1)


def test_task_4_metal_scaled_out_of_half():
    """float16 cannot hold a query times scale, and what is computed in float32 can."""
    queries, keys, *rest = paged_inputs(6, dtype=mx.float16)
    agrees(metal, paged64, 64 * queries, keys * 2**-13, *rest, 1024.0, seed=6)


@pytest.mark.parametrize("length", [1, 3, 15, 16, 17, 33])
def test_task_4_metal_queries(length):
    """Fewer queries than a block has, as many, more."""
    agrees(metal, paged64, *metal_inputs(2, length, 35), seed=2)


@pytest.mark.parametrize("tokens", [1, 2, 31, 32, 33, 64, 65, 100])
def test_task_4_metal_tokens(tokens):
    """One query: fewer keys than a block has, as many, more."""
    agrees(metal, paged64, *metal_inputs(3, 1, tokens), seed=3)


@pytest.mark.parametrize("page", [1, 3, 16, 20, 32, 33, 64])
def test_task_4_metal_sizes(page):
    """A block of 32 keys ends where a page ends, or within one; a page is shorter than a block, or longer."""
    agrees(metal, paged64, *metal_inputs(4, 3, 70, page), seed=4)


@pytest.mark.parametrize(("length", "tokens"), [(9, 9), (17, 17), (33, 33), (5, 32), (5, 33), (18, 66), (33, 97)])
def test_task_4_metal_causal_blocks(length, tokens):
    """The diagonal goes through a block, or along its edge; the last block of keys is hidden from some queries."""
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
def test_task_4_metal_others_are_not_looked_at(held, tokens):
    """In the rest of the last page, in pages that are not the request's, and in those that no token has come to."""
    agrees(metal, paged64, *with_held(metal_inputs(9, 3, tokens, 4, spare=1), held), seed=9)


def test_task_4_metal_weights():
    """The values are the rows of an identity: what comes out are the weights."""
    query, keys, _, _, _ = metal_inputs(10, 5, 40, 40, 40, others=0)
    agrees(metal, paged64, query, keys, mx.eye(40)[None, None], [0], 40, seed=10)


def test_task_4_metal_large_scores():
    """exp(300) is more than float32 holds: scores count relative to the largest."""
    query, *rest = metal_inputs(11, 18, 70)
    agrees(metal, paged64, 40 * query, *rest, 2.0, seed=11)


def test_task_4_metal_equal_scores():
    """With queries of zeros it is the mean of all values that a query sees."""
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
    """Queries, output, keys and values of whole blocks, and for each block two lines of the table a SIMD-group."""
    query, *rest = paged_inputs(15, 32, 96, 8, 1, 1, 32, dtype)
    blocks = 3 + 3
    moved = 2 * query.nbytes + 2 * blocks * 32 * 32 * dtype.size + blocks * 4 * 2 * 64
    costs_at_most(metal, query, *rest, seed=15, moved=moved)


def test_task_4_metal_skipped_blocks_are_not_moved():
    """Of a prompt of 96 tokens the first 32 queries need one block of keys, the next 32 two, the last 32 three."""
    query, *rest = paged_inputs(16, 96, 96, 8, 1, 1, 32)
    blocks = 2 * (1 + 2 + 3)
    moved = 2 * query.nbytes + 2 * blocks * 32 * 32 * 4 + blocks * 4 * 2 * 64
    costs_at_most(metal, query, *rest, seed=16, moved=moved)


def test_task_4_metal_banks():
    """No thread waits for another one's bank."""
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
