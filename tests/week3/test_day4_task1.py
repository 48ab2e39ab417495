"""Week 3, day 4, task 1: attention over pages.

Expected is attention over the request's gathered keys and values.
"""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.formulas_day7 import far_below_zero
from tests.week3.formulas_day4 import (
    HEADS,
    HELD,
    by_mlx,
    by_torch,
    evaluated_graphs,
    paged64,
    paged_inputs,
    pending_operations,
    pooled,
    with_held,
)

from tiny_llm.paged import attention
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.cases import dtype_word, noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep

by_heads = pytest.mark.parametrize(("heads", "kv_heads"), HEADS)


def paged(query, keys, values, table, tokens, scale=None):
    return attention.paged_attention(query, keys, values, table, tokens, scale)


@by_dtype
def test_task_1_pages_formula(dtype):
    agrees(paged, paged64, *paged_inputs(1, dtype=dtype), seed=1)


@pytest.mark.parametrize("tokens", [1, 3, 4, 5, 7, 8, 9])
def test_task_1_pages_one_query(tokens):
    """Part of a page, a whole one, one token more."""
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


def test_task_1_pages_scaled_in_float32():
    """float16 cannot hold a query times scale, but float32 can."""
    queries, keys, *rest = paged_inputs(6, dtype=mx.float16)
    agrees(paged, paged64, 64 * queries, keys * 2**-13, *rest, 1024.0, seed=6)


def test_task_1_pages_scores_in_float32():
    """float16 cannot hold a product of query and key before it is scaled, but float32 can."""
    queries, keys, *rest = paged_inputs(6, dtype=mx.float16)
    agrees(paged, paged64, 256 * queries, 256 * keys, *rest, 2.0**-17, seed=6)


def test_task_1_pages_large_scores_in_float32():
    """float16 cannot tell scores of about 2,000 apart that differ by less than 1, but float32 can."""
    queries, keys, *rest = paged_inputs(6, dtype=mx.float16)
    agrees(paged, paged64, queries + 32, keys / 16 + 32, *rest, 0.25, seed=6)


def test_task_1_pages_spare_pages():
    """The block table has two entries more than the tokens fill: other pages, or none yet."""
    query, keys, values, table, tokens = paged_inputs(7, spare=2)
    agrees(paged, paged64, query, keys, values, table, tokens, seed=7)
    agrees(paged, paged64, query, keys, values, [*table[:3], -1, -1], tokens, seed=7)


@pytest.mark.parametrize("tokens", [10, 12])
@pytest.mark.parametrize("held", HELD)
def test_task_1_pages_ignores_other_slots(held, tokens):
    """In the rest of the last page, in other requests' pages, and in allocated pages without tokens yet."""
    agrees(paged, paged64, *with_held(paged_inputs(8, 3, tokens, spare=1), held), seed=8)


def test_task_1_pages_shared():
    """Two requests share their first page; their second pages differ."""
    query, keys, values, _, _ = paged_inputs(9)
    for table in ([2, 0, 4], [2, 5, 1]):
        agrees(paged, paged64, query, keys, values, table, 11, seed=9)


@pytest.mark.parametrize("rising", [True, False])
def test_task_1_pages_moving_maximum(rising):
    """The maximum score of each page is larger, or smaller, than that of the page before."""
    query, keys, values, table, tokens = paged_inputs(10, 2, 18)
    order = mx.array([table.index(page) if page in table else 0 for page in range(keys.shape[0])])
    keys = keys + (order if rising else -order)[:, None, None, None]
    agrees(paged, paged64, mx.abs(query), keys, values, table, tokens, seed=10)


def test_task_1_pages_large_scores():
    """exp(300) overflows float32: weights are relative to the maximum score."""
    query, *rest = paged_inputs(11)
    agrees(paged, paged64, 200 * query, *rest, 2.0, seed=11)


def test_task_1_pages_scores_far_below_zero():
    """A hidden key has no weight, even if all visible scores are about -20,000."""
    query, keys, *rest = paged_inputs(21, 6, 11)
    agrees(paged, paged64, *far_below_zero(query, keys), *rest, 1.0, seed=21)


def test_task_1_pages_equal_scores():
    """With zero queries, the result is the mean of all visible values."""
    query, *rest = paged_inputs(12)
    agrees(paged, paged64, 0 * query, *rest, seed=12)


def test_task_1_pages_mlx():
    inputs = paged_inputs(13)
    agrees(paged, paged64, *inputs, 0.5, seed=13, expected=by_mlx(*inputs, 0.5))


def test_task_1_pages_pytorch(pytorch):
    inputs = paged_inputs(14, 11)
    agrees(paged, paged64, *inputs, 0.5, seed=14, expected=by_torch(pytorch, *inputs))


@by_dtype
def test_task_1_pages_holds_no_copy(dtype):
    """A long context, whose keys and values dominate the memory: no copy of them in any dtype."""
    query, keys, values, table, tokens = paged_inputs(15, 1, 4096, 32, 2, 1, 128, dtype)
    agrees(paged, paged64, *paged_inputs(15, dtype=dtype), seed=15)
    mx.eval(query, keys, values)
    shapes = "query 1 x 2 x 128, 131 pages of 32 tokens, of which the block table has 128, tokens 4096"
    case = f"{dtype_word(dtype)}, {shapes}, seed 15"
    run = lambda: paged(query, keys, values, table, tokens)  # noqa: E731
    holds_less(run, 4096 * 128 * 4 // 2, "half of the request's keys in float32", case=case)


def test_task_1_pages_evaluated():
    """A hundred pages: what an evaluation computes, or is left at the end, does not grow with their number."""
    inputs, case = paged_inputs(19, 1, 400), "float32, query 1 x 6 x 8, 400 tokens in pages of 4, seed 19"
    agrees(paged, paged64, *inputs, seed=19)
    with noted(case), evaluated_graphs() as sizes:
        left = pending_operations(paged(*inputs))
    if left > 100 or max(sizes, default=0) > 500:  # the exact number depends on how a page is computed
        got = "got       hundreds of pending operations for all pages together"
        fail(Kind.VALUES, "the pages are not evaluated one by one", case, got)


def test_task_1_pages_sweep():
    for n in sweep(K=9, G=5, L=40, X=300, D=131, P=66):
        tokens = n.L + n.X - 1
        page = n.P if tokens / n.P < 100 else 16
        keys, values, table = pooled(n.seed, tokens, page, n.K, n.D, n.dtype, spare=n.turn(0, 1))
        query = normals(n.seed + 2, n.dtype)(n.L, n.K * n.G, n.D, spread=min(n.spread, 30.0))
        agrees(paged, paged64, query, keys, values * n.spread, table, tokens, n.turn(None, -0.7, 2.5), seed=n)


@property_test
@given(order=st.permutations(range(6)), seed=st.integers(0, 99))
def test_task_1_pages_in_any_order(order, seed):
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


@pytest.mark.parametrize("tokens", [3, 2])
def test_task_1_pages_refuses_more_queries_than_tokens(tokens):
    query, keys, values, table, _ = paged_inputs(17)
    with raises_value_error(f"float32, query 4 x 6 x 8, keys 6 x 2 x 4 x 8, values 6 x 2 x 4 x 8, tokens {tokens}"):
        mx.eval(paged(query, keys, values, table, tokens))


@pytest.mark.parametrize("tokens", [13, 16])
def test_task_1_pages_refuses_more_tokens_than_slots(tokens):
    query, keys, values, table, _ = paged_inputs(18)
    with raises_value_error(
        f"float32, query 4 x 6 x 8, keys 6 x 2 x 4 x 8, values 6 x 2 x 4 x 8, block table {table}, tokens {tokens}"
    ):
        mx.eval(paged(query, keys, values, table, tokens))


@pytest.mark.parametrize(
    ("table", "page"),
    [([2, 6, 1], 6), ([2, -1, 0], -1), ([9, 0, 2], 9), ([2, 0, 2], 2), ([1, 4, 4], 4), ([4, 4, 4], 4)],
)
def test_task_1_pages_refuses_block_tables(table, page):
    """A page that the pool does not have, or the same page twice. The message names it."""
    query, keys, values, _, tokens = paged_inputs(20)
    with raises_value_error(
        f"float32, query 4 x 6 x 8, keys 6 x 2 x 4 x 8, values 6 x 2 x 4 x 8, block table {table}, tokens 11", str(page)
    ):
        mx.eval(paged(query, keys, values, table, tokens))
