"""Week 2, day 7, task 4: flash attention in Metal."""

import math

import mlx.core as mx
import pytest
from tests.week2.formulas_day7 import far_below_zero, flash64, flash_inputs, many_small_weights

from tiny_llm.metal import attention as in_metal
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.inputs import DTYPES
from tiny_llm_course.testkit.kernels import costs_at_most
from tiny_llm_course.testkit.marks import by_dtype, on
from tiny_llm_course.testkit.rounding import exact, in_float32, to_float64
from tiny_llm_course.testkit.sizes import sweep


def metal64(query, key, value, scale=None, mask=None, *, r=exact):
    """The kernel's header: float32 steps for all dtypes, rounded once."""
    return r(flash64(query, key, value, scale, mask, r=in_float32(r)))


def few_inputs(seed, length, keys, dims=8, dtype=mx.float32):
    """Two heads that share keys."""
    return flash_inputs(seed, dtype, (), 2, 1, length, keys, dims)


def in_blocks(query, key, value, scale=None, mask=None):
    return in_metal.flash_attention(query, key, value, scale, mask)


@by_dtype
@pytest.mark.parametrize("leading", [(), (5,), (2, 3)], ids=str)
def test_task_4_metal_formula(leading, dtype):
    agrees(in_blocks, metal64, *flash_inputs(1, dtype, leading), seed=1)


@pytest.mark.parametrize("length", [1, 3, 15, 16, 17, 33])
def test_task_4_metal_queries(length):
    """Fewer queries than a block, as many, more."""
    agrees(in_blocks, metal64, *few_inputs(2, length, 7), seed=2)


@pytest.mark.parametrize("keys", [1, 2, 31, 32, 33, 64, 65, 100])
def test_task_4_metal_keys(keys):
    """Fewer keys than a block, as many, more."""
    agrees(in_blocks, metal64, *few_inputs(3, 3, keys), seed=3)


@by_dtype
def test_task_4_metal_causal(dtype):
    agrees(in_blocks, metal64, *flash_inputs(4, dtype), mask="causal", seed=4)


@pytest.mark.parametrize(
    ("length", "keys"), [(1, 70), (9, 9), (17, 17), (33, 33), (5, 32), (5, 33), (18, 66), (33, 97)]
)
def test_task_4_metal_causal_blocks(length, keys):
    """The diagonal crosses a block, or follows its edge; the last block of keys is masked for some queries."""
    agrees(in_blocks, metal64, *few_inputs(5, length, keys), mask="causal", seed=5)


@pytest.mark.parametrize("dims", [1, 7, 31, 32, 33, 64, 80, 128])
def test_task_4_metal_dims(dims):
    agrees(in_blocks, metal64, *few_inputs(6, 3, 7, dims), seed=6)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (3, 1), (6, 3), (6, 2)])
def test_task_4_metal_heads(heads, kv_heads):
    agrees(in_blocks, metal64, *flash_inputs(7, heads=heads, kv_heads=kv_heads), seed=7)


@pytest.mark.parametrize("scale", [1.0, 0.0, -0.3])
def test_task_4_metal_scale(scale):
    agrees(in_blocks, metal64, *few_inputs(8, 4, 40), scale=scale, seed=8)


@pytest.mark.parametrize("mask", [None, "causal"])
def test_task_4_metal_equal_scores(mask):
    """Queries of zeros give the mean of all visible values."""
    query, key, value = few_inputs(9, 5, 70)
    agrees(in_blocks, metal64, 0 * query, key, value, mask=mask, seed=9)


def test_task_4_metal_weights():
    """The values are an identity matrix, so the output is the attention weights."""
    query, key, _ = few_inputs(10, 5, 40, 40)
    agrees(in_blocks, metal64, query, key, mx.eye(40)[None], mask="causal", seed=10)


@pytest.mark.parametrize("rising", [True, False])
def test_task_4_metal_moving_maximum(rising):
    """The maximum of each block is larger, or smaller, than that of the block before."""
    query, key, value = few_inputs(11, 2, 100)
    key = key + mx.arange(100)[:, None] * (0.1 if rising else -0.1)
    agrees(in_blocks, metal64, mx.abs(query), key, value, seed=11)


@pytest.mark.parametrize("mask", [None, "causal"])
def test_task_4_metal_large_scores(mask):
    """exp(300) overflows float32: scores must be relative to the maximum."""
    query, key, value = few_inputs(12, 18, 70)
    agrees(in_blocks, metal64, 40 * query, key, value, 2.0, mask, seed=12)


def test_task_4_metal_scores_far_below_zero():
    """Scores of about -20,000: the maximum starts below any of them, and a hidden key has no weight."""
    query, key, value = few_inputs(21, 18, 70)
    agrees(in_blocks, metal64, *far_below_zero(query, key), value, 1.0, "causal", seed=21)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_4_metal_many_small_weights(dtype):
    """The sums of the weights and of the weighted values are float32: narrow ones stop growing."""
    agrees(in_blocks, metal64, *many_small_weights(dtype, 1, 1, 1), 1.0, seed=22)


def test_task_4_metal_large_sums():
    """Each value fits in float16; their sum before the division does not."""
    query, key, value = few_inputs(13, 2, 40, dtype=mx.float16)
    agrees(in_blocks, metal64, query, key, value + 20000, seed=13)


@pytest.mark.parametrize("behind", [math.nan, math.inf, 3e38])
def test_task_4_metal_skips_masked_blocks(behind):
    """Of 48 keys the last 16 are masked for the first 32 queries, two blocks that must not read them."""
    query, key, value = few_inputs(14, 48, 48)
    last = mx.arange(48)[:, None] >= 32
    agrees(in_blocks, metal64, query, key, value, mask="causal", seed=14)
    expected = metal64(*map(to_float64, (query, key, value)), mask="causal")[:, :32]
    actual = in_blocks(query, mx.where(last, behind, key), mx.where(last, behind, value), mask="causal")
    case = f'float32, query 2 x 48 x 8, key 1 x 48 x 8, mask "causal", {behind} in the last 16 keys, seed 14'
    compare(actual[:, :32], expected, mx.float32, 1e-5, case, query.size)


@pytest.mark.parametrize("mask", [None, "causal"])
def test_task_4_metal_mlx(mask):
    query, key, value = flash_inputs(15)
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask))
    agrees(in_blocks, metal64, query, key, value, 0.5, mask, seed=15, expected=expected)


def test_task_4_metal_pytorch(pytorch):
    query, key, value = few_inputs(16, 20, 20)

    def sdpa(torch, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    expected = pytorch(sdpa, query, key, value)
    agrees(in_blocks, metal64, query, key, value, mask="causal", seed=16, expected=expected)


def metal_costs_at_most(seed, mask, dtype=mx.float32, **enough):
    """Each block of 16 queries moves the keys and values that it sees once, in whole blocks of 32."""
    query, key, value = flash_inputs(seed, dtype, (), 1, 1, 96, 96, 32)
    blocks = sum(min(96, 32 * math.ceil(last / 32)) if mask else 96 for last in range(16, 97, 16))
    moved = 2 * (query.nbytes + query.nbytes) + 2 * blocks * 32 * dtype.size
    costs_at_most(in_blocks, query, key, value, None, mask, seed=seed, moved=moved, **enough)


@by_dtype
def test_task_4_metal_moves(dtype):
    """Only queries, keys, values and the output move, no scores."""
    metal_costs_at_most(17, None, dtype)


def test_task_4_metal_skipped_blocks_are_not_moved():
    metal_costs_at_most(18, "causal")


def test_task_4_metal_banks():
    """No bank conflicts."""
    query, key, value = few_inputs(19, 16, 64, 128)
    costs_at_most(in_blocks, query, key, value, seed=19, bank_conflicts=0)


@on("gpu")
def test_task_4_metal_on_the_gpu():
    for dtype in DTYPES:
        for mask in (None, "causal"):
            agrees(in_blocks, metal64, *flash_inputs(20, dtype, (2,), 6, 2, 37, 131, 128), mask=mask, seed=20)


def test_task_4_metal_sweep():
    for n in sweep(K=5, G=4, L=40, X=140, D=65):
        query, key, value = flash_inputs(n.seed, n.dtype, (), n.K * n.G, n.K, n.L, n.L + n.X - 1, n.D)
        scale, mask = n.turn(None, -0.7, 2.5), n.turn("causal", None)
        agrees(in_blocks, metal64, query * min(n.spread, 30.0), key, value * n.spread, scale, mask, seed=n)
