"""Week 3, day 4, task 3: a prompt in C++.

Expected is attention over the request's gathered keys and values.
"""

import math

import mlx.core as mx
import pytest
from tests.week2.formulas_day7 import far_below_zero
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

from tiny_llm.paged import kernels
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import fast, watched
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep

by_heads = pytest.mark.parametrize(("heads", "kv_heads"), HEADS)


@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 95, 96, 97, 98, 193, 290])
def test_task_3_flash_decode(tokens):
    """One query: fewer keys than a tile has, as many, more."""
    agrees(kernels.paged_flash, paged64, *paged_inputs(1, 1, tokens, 16), 0.4, seed=1)


@pytest.mark.parametrize("length", [2, 3, 16, 17, 23, 24, 25, 49])
def test_task_3_flash_prefill(length):
    """Fewer queries than a tile has, as many, more; without tokens before them."""
    agrees(kernels.paged_flash, paged64, *paged_inputs(2, length, length, 16), 0.4, seed=2)


@pytest.mark.parametrize(("length", "tokens"), [(5, 96), (5, 98), (26, 97), (30, 200), (98, 98)])
def test_task_3_flash_tokens_before(length, tokens):
    """A later chunk of a prompt: the last tile of keys is masked for some queries, or for some of a tile."""
    agrees(kernels.paged_flash, paged64, *paged_inputs(3, length, tokens, 16, 2, 1), 0.4, seed=3)


@pytest.mark.parametrize("page", [1, 2, 5, 20, 32, 95, 96, 97, 200])
def test_task_3_flash_sizes(page):
    """A tile of 96 keys ends at a page boundary, or inside a page; a page is shorter than a tile, or longer."""
    agrees(kernels.paged_flash, paged64, *paged_inputs(4, 3, 210, page, 2, 1), 0.4, seed=4)


@pytest.mark.parametrize("dims", [1, 4, 7, 16, 20, 36, 64, 128])
def test_task_3_flash_dims(dims):
    agrees(kernels.paged_flash, paged64, *paged_inputs(5, dims=dims), 1 / math.sqrt(dims), seed=5)


@by_heads
def test_task_3_flash_heads(heads, kv_heads):
    agrees(kernels.paged_flash, paged64, *paged_inputs(6, heads=heads, kv_heads=kv_heads), 0.5, seed=6)


@pytest.mark.parametrize("tokens", [10, 12])
@pytest.mark.parametrize("held", HELD)
def test_task_3_flash_ignores_other_slots(held, tokens):
    """In the rest of the last page, in other requests' pages, and in allocated pages without tokens yet."""
    agrees(kernels.paged_flash, paged64, *with_held(paged_inputs(7, 3, tokens, spare=1), held), 0.4, seed=7)


def test_task_3_flash_equal_scores():
    """With zero queries, the result is the mean of all visible values."""
    queries, *rest = paged_inputs(8, 5, 200, 16, 2, 1)
    agrees(kernels.paged_flash, paged64, 0 * queries, *rest, 0.5, seed=8)


def test_task_3_flash_large_scores():
    """exp(300) overflows float32: weights are relative to the maximum score."""
    queries, *rest = paged_inputs(9, 30, 130, 16, 2, 1)
    agrees(kernels.paged_flash, paged64, 40 * queries, *rest, 2.0, seed=9)


def test_task_3_flash_scores_far_below_zero():
    """exp(-160) is 0 in float32: a query's maximum score may itself be far below 0."""
    queries, keys, *rest = paged_inputs(13, 30, 130, 16, 2, 1)
    agrees(kernels.paged_flash, paged64, -20 - mx.abs(queries), 1 + mx.abs(keys), *rest, 1.0, seed=13)


def test_task_3_flash_hidden_keys_have_no_weight():
    """All visible scores are about -20,000: a finite number in place of -infinity would outweigh them."""
    query, keys, *rest = paged_inputs(14, 30, 130, 16, 2, 1)
    agrees(kernels.paged_flash, paged64, *far_below_zero(query, keys), *rest, 1.0, seed=14)


def test_task_3_flash_mlx():
    inputs = paged_inputs(10, 26, 110, 16, 4, 2)
    agrees(kernels.paged_flash, paged64, *inputs, 0.5, seed=10, expected=by_mlx(*inputs, 0.5))


def test_task_3_flash_pytorch(pytorch):
    inputs = paged_inputs(11, 11)
    agrees(kernels.paged_flash, paged64, *inputs, 0.5, seed=11, expected=by_torch(pytorch, *inputs))


@pytest.mark.parametrize(("kv_heads", "length"), [(4, 1), (1, 96)], ids=str)
def test_task_3_flash_several_chunks(kv_heads, length):
    """The work is divided into chunks: a decode step by key-value heads, a prompt also by blocks of queries."""
    chunks = watched(kernels.paged_flash, *paged_inputs(15, length, 96, 16, 4, kv_heads), 0.4).chunks
    if chunks < 2:
        lines = (
            "expected  pool().run with two chunks or more that read inputs and write results",
            f"got       {chunks}",
        )
        case = f"float32, query {length} x 4 x 8, 96 tokens in pages of 16, {kv_heads} key-value heads"
        raise CheckFailed(Finding(Kind.COSTS, "one core computes everything", lines, case, 96))


def test_task_3_flash_skips_masked_keys():
    """A block of queries loads no keys after its last query: for a prompt of 288 tokens, about half of all."""
    inputs = [paged_inputs(16, length, 288, 16, 1, 1, 4) for length in (24, 288)]
    read = [watched(kernels.paged_flash, *each, 0.4).loads[1][1] for each in inputs]
    if (share := read[1] / (12 * read[0])) > 0.8:
        lines = ("expected  about 54%: the keys up to the last query of each block",)
        headline = f"a prompt loads {share:.0%} of the keys that its blocks of queries would load without a causal mask"
        case = "float32, query 288 x 1 x 4, 288 tokens in pages of 16, 1 key-value head"
        raise CheckFailed(Finding(Kind.COSTS, headline, lines, case, 288))


def test_task_3_flash_again_and_again():
    """The fast build, many times: the result does not depend on which thread gets which tile."""
    inputs = paged_inputs(12, 100, 150, 16)
    expected = paged64(*map(to_float64, inputs[:3]), *inputs[3:], 0.5)
    kernels.paged_flash(*paged_inputs(12), 0.5)  # already run under the checks: the fast build is safe
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
