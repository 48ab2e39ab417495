"""Week 2, day 7, task 3: flash attention in C++."""

import math

import mlx.core as mx
import pytest
from tests.week2.formulas_day7 import far_below_zero, kernel64

from tiny_llm.kernels import native
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.kernels import fast, watched
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def kernel_inputs(seed, heads=6, kv_heads=2, length=4, tokens=7, dims=8, spread=1.0):
    draw = normals(seed)
    kv = kv_heads, tokens, dims
    return draw(length, heads, dims, spread=spread), draw(*kv), draw(*kv)


@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 95, 96, 97, 98, 193, 290])
def test_task_3_kernel_decode(tokens):
    """One query: fewer keys than a block, as many, more."""
    agrees(native.flash, kernel64, *kernel_inputs(1, length=1, tokens=tokens), 0.4, seed=1)


@pytest.mark.parametrize("length", [2, 3, 23, 24, 25, 49])
def test_task_3_kernel_prefill(length):
    """Fewer queries than a block, as many, more, without earlier tokens."""
    agrees(native.flash, kernel64, *kernel_inputs(2, length=length, tokens=length), 0.4, seed=2)


@pytest.mark.parametrize(("length", "tokens"), [(5, 96), (5, 98), (26, 97), (30, 200), (98, 98)])
def test_task_3_kernel_tokens_before(length, tokens):
    """A chunked prefill: the last block of keys is masked for some queries, or for part of a block."""
    agrees(native.flash, kernel64, *kernel_inputs(3, 2, 1, length, tokens), 0.4, seed=3)


@pytest.mark.parametrize("dims", [1, 4, 7, 16, 20, 36, 64, 128])
def test_task_3_kernel_dims(dims):
    agrees(native.flash, kernel64, *kernel_inputs(4, dims=dims), 1 / math.sqrt(dims), seed=4)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (2, 1), (5, 5), (5, 1), (8, 2), (12, 4)])
def test_task_3_kernel_heads(heads, kv_heads):
    agrees(native.flash, kernel64, *kernel_inputs(5, heads, kv_heads), 0.5, seed=5)


def test_task_3_kernel_equal_scores():
    """Queries of zeros give the mean of all visible values."""
    _, keys, values = kernel_inputs(6, kv_heads=1, length=1, tokens=200)
    agrees(native.flash, kernel64, mx.zeros((5, 2, 8)), keys, values, 0.5, seed=6)


def test_task_3_kernel_large_scores():
    """exp(300) overflows float32: scores must be relative to the maximum."""
    agrees(native.flash, kernel64, *kernel_inputs(7, 2, 1, length=30, tokens=130, spread=40), 2.0, seed=7)


def test_task_3_kernel_scores_far_below_zero():
    """exp(-160) is 0 in float32: the maximum of a query may itself be far below 0."""
    queries, keys, values = kernel_inputs(12, 2, 1, length=30, tokens=130)
    agrees(native.flash, kernel64, -20 - mx.abs(queries), 1 + mx.abs(keys), values, 1.0, seed=12)


def test_task_3_kernel_hidden_keys_have_no_weight():
    """All visible scores are about -20,000: a finite number in place of -infinity would outweigh them."""
    queries, keys, values = kernel_inputs(15, length=30, tokens=130)
    agrees(native.flash, kernel64, *far_below_zero(queries, keys), values, 1.0, seed=15)


@pytest.mark.parametrize("rising", [True, False])
def test_task_3_kernel_moving_maximum(rising):
    """The maximum of each block is larger, or smaller, than that of the block before."""
    queries, keys, values = kernel_inputs(8, length=2, tokens=250)
    keys = keys + mx.arange(250)[:, None] * (0.05 if rising else -0.05)
    agrees(native.flash, kernel64, mx.abs(queries), keys, values, 0.5, seed=8)


def test_task_3_kernel_mlx():
    queries, keys, values = kernel_inputs(9, 4, 2, length=26, tokens=110)
    given = queries.swapaxes(0, 1)[None], keys[None], values[None]
    expected = mx.fast.scaled_dot_product_attention(*given, scale=0.5, mask="causal")[0].swapaxes(0, 1)
    agrees(native.flash, kernel64, queries, keys, values, 0.5, seed=9, expected=to_float64(expected))


def test_task_3_kernel_pytorch(pytorch):
    queries, keys, values = kernel_inputs(10, length=5, tokens=5)

    def sdpa(torch, q, k, v):
        given = q.transpose(0, 1)[None], k[None], v[None]
        options = {"is_causal": True, "enable_gqa": True, "scale": 0.5}
        return torch.nn.functional.scaled_dot_product_attention(*given, **options)[0].transpose(0, 1)

    expected = pytorch(sdpa, queries, keys, values)
    agrees(native.flash, kernel64, queries, keys, values, 0.5, seed=10, expected=expected)


@pytest.mark.parametrize(("kv_heads", "length"), [(4, 1), (1, 96)], ids=str)
def test_task_3_kernel_threads(kv_heads, length):
    """The work is divided into chunks: a decode step by key-value heads, a prompt also by blocks of queries."""
    chunks = watched(native.flash, *kernel_inputs(13, 4, kv_heads, length, 96), 0.4).chunks
    if chunks < 2:
        lines = (
            "expected  pool().run with two chunks or more that read inputs and write results",
            f"got       {chunks}",
        )
        case = f"float32, queries {length} x 4 x 8, keys {kv_heads} x 96 x 8"
        raise CheckFailed(Finding(Kind.COSTS, "one core computes everything", lines, case, 96))


def test_task_3_kernel_skips_masked_keys():
    """A block of queries loads no keys after its last query: for a prompt of 288 tokens, about half of all."""
    read = [watched(native.flash, *kernel_inputs(14, 1, 1, each, 288, 4), 0.4).loads[1][1] for each in (24, 288)]
    if (share := read[1] / (12 * read[0])) > 0.8:
        lines = ("expected  about 54%: the keys up to the last query of each block",)
        headline = f"a prompt loads {share:.0%} of the keys that its blocks of queries would load without a causal mask"
        raise CheckFailed(Finding(Kind.COSTS, headline, lines, "float32, queries 288 x 1 x 4, keys 1 x 288 x 4", 288))


def test_task_3_kernel_again_and_again():
    """The fast build, many times: the result does not depend on which thread takes which block."""
    inputs = kernel_inputs(11, length=100, tokens=150)
    expected = kernel64(*map(to_float64, inputs), 0.5)
    native.flash(*kernel_inputs(11), 0.5)  # in the checked build first
    for _ in range(30):
        again = fast(native.flash)(*inputs, 0.5)
        compare(again, expected, mx.float32, 1e-5, "float32, queries 100 x 6 x 8, one call of 30, seed 11", 4800)


def test_task_3_kernel_sweep():
    for n in sweep(K=20, G=9, L=260, X=1100, D=257):
        if n.dtype != mx.float32:
            continue
        inputs = kernel_inputs(n.seed, n.K * n.G, n.K, n.L, n.L + n.X - 1, n.D, min(n.spread, 30.0))
        agrees(fast(native.flash), kernel64, *inputs, n.turn(0.3, 1.0), seed=n)
