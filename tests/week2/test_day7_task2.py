"""Week 2, day 7, task 2: attention in blocks."""

import math

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.formulas_day7 import far_below_zero, flash64, flash_inputs

from tiny_llm.flash_attention import attention
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, MASKS, broadcasting, causal, mask_of, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def flash(query, key, value, scale=None, mask=None, block=128):
    return attention.flash_attention(query, key, value, scale, mask, block)


@by_dtype
@pytest.mark.parametrize("leading", [(), (5,), (2, 5)], ids=str)
def test_task_2_flash_formula(leading, dtype):
    agrees(flash, flash64, *flash_inputs(1, dtype, leading), block=3, seed=1)


@pytest.mark.parametrize("block", [1, 2, 3, 4, 5, 7, 8, 128])
def test_task_2_flash_blocks(block):
    """Blocks that divide neither L nor S, longer than one of them, and longer than both; also with L > S."""
    agrees(flash, flash64, *flash_inputs(2), block=block, seed=2)
    agrees(flash, flash64, *flash_inputs(2, length=7, keys=4), block=block, seed=2)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (3, 1), (6, 3), (6, 2)])
def test_task_2_flash_heads(heads, kv_heads):
    agrees(flash, flash64, *flash_inputs(3, heads=heads, kv_heads=kv_heads), block=3, seed=3)


@by_dtype
@pytest.mark.parametrize(("length", "keys"), [(9, 9), (4, 9), (1, 9), (8, 12)])
def test_task_2_flash_causal(length, keys, dtype):
    inputs = flash_inputs(4, dtype, length=length, keys=keys)
    agrees(flash, flash64, *inputs, mask="causal", block=4, seed=4)


@pytest.mark.parametrize("block", [1, 2, 3, 4, 5, 6, 7, 11, 128])
@pytest.mark.parametrize(("length", "keys"), [(7, 7), (4, 11)])
def test_task_2_flash_causal_blocks(length, keys, block):
    inputs = flash_inputs(5, leading=(), length=length, keys=keys)
    agrees(flash, flash64, *inputs, mask="causal", block=block, seed=5)


def test_task_2_flash_causal_scores_far_below_zero():
    """A hidden key has no weight, even if all visible scores are about -20,000."""
    query, key, value = flash_inputs(19, length=6, keys=9)
    agrees(flash, flash64, *far_below_zero(query, key), value, 1.0, "causal", block=4, seed=19)


@pytest.mark.parametrize("scale", [1.0, 0.0, -0.3])
def test_task_2_flash_scale(scale):
    agrees(flash, flash64, *flash_inputs(6), scale=scale, block=3, seed=6)


def test_task_2_flash_finite_mask():
    """Masks for all queries, per key, per head, per row of the batch, per row and head, and so on."""
    for shape in broadcasting(5, 6, 4, 7):
        agrees(flash, flash64, *flash_inputs(7), mask=normals(70)(*shape, spread=2.0), block=4, seed=7)


@by_dtype
def test_task_2_flash_forbidding_mask(dtype):
    agrees(flash, flash64, *flash_inputs(8, dtype), mask=causal(4, 7, dtype), block=3, seed=8)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_2_flash_float32_mask(dtype):
    """A mask of another float dtype leaves the output in query's dtype."""
    agrees(flash, flash64, *flash_inputs(9, dtype), mask=causal(4, 7, mx.float32), block=3, seed=9)


@pytest.mark.parametrize("block", [2, 3, 8])
def test_task_2_flash_masked_blocks(block):
    """Whole blocks of keys are masked for some queries, and all keys for one."""
    visible = mx.arange(9) < mx.array([9, 3, 0, 5])[:, None]
    mask = mx.where(visible[:, ::-1], 0.0, -mx.inf)
    agrees(flash, flash64, *flash_inputs(10, keys=9), mask=mask, block=block, seed=10)


@pytest.mark.parametrize("masked", [False, True])
def test_task_2_flash_mlx(masked):
    query, key, value = flash_inputs(11)
    mask = normals(110)(6, 4, 7) if masked else None
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask))
    agrees(flash, flash64, query, key, value, scale=0.5, mask=mask, block=3, seed=11, expected=expected)


def test_task_2_flash_mlx_causal():
    query, key, value = flash_inputs(12)
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask="causal"))
    agrees(flash, flash64, query, key, value, scale=0.5, mask="causal", block=3, seed=12, expected=expected)


def test_task_2_flash_pytorch(pytorch):
    query, key, value = flash_inputs(13)
    mask = normals(130)(4, 7)

    def sdpa(torch, q, k, v, m):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m, enable_gqa=True)

    expected = pytorch(sdpa, query, key, value, mask)
    agrees(flash, flash64, query, key, value, mask=mask, block=3, seed=13, expected=expected)


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("behind", [math.nan, math.inf, 3e38])
def test_task_2_flash_skips_masked_blocks(behind, before):
    """The keys after the last query of a block are not read, even if a block of keys begins before them."""
    keys = 16 + before
    query, key, value = flash_inputs(14, leading=(), length=16, keys=keys)
    last = mx.arange(keys)[:, None] >= 12 + before
    agrees(flash, flash64, query, key, value, mask="causal", block=4, seed=14)
    expected = flash64(*map(to_float64, (query, key, value)), mask="causal")[:, :12]
    actual = flash(query, mx.where(last, behind, key), mx.where(last, behind, value), mask="causal", block=4)
    shapes = f"query 6 x 16 x 8, key 2 x {keys} x 8"
    case = f'float32, {shapes}, mask "causal", block 4, {behind} in the last 4 keys, seed 14'
    compare(actual[:, :12], expected, mx.float32, 1e-5, case, query.size)


@pytest.mark.parametrize("sort", ["causal", "none", "bias"])
@pytest.mark.parametrize(("length", "keys"), [(1024, 1024), (64, 16384)])
def test_task_2_flash_stores_no_score_matrix(length, keys, sort):
    """Peak memory is less than one byte per score, whatever the dtype of the scores and the kind of mask."""
    query, key, value = flash_inputs(15, leading=(), heads=2, kv_heads=1, length=length, keys=keys)
    agrees(flash, flash64, *flash_inputs(15, length=70, keys=130), mask="causal", block=64, seed=15)
    mask = mask_of(sort, 15, mx.float32, keys)
    words = {"causal": ', mask "causal"', "none": "", "bias": f", mask {keys}"}[sort]
    case = f"float32, query 2 x {length} x 8, key 1 x {keys} x 8{words}, block 64, seed 15"
    scores = 2 * length * keys
    run = lambda: flash(query, key, value, mask=mask, block=64)  # noqa: E731
    holds_less(run, scores, "one byte per score", case=case)


def test_task_2_flash_sweep():
    for n in sweep(N=20, K=9, G=5, L=131, X=1100, D=131):
        heads, keys = n.K * n.G, n.L + n.X - 1
        query, key, value = flash_inputs(n.seed, n.dtype, (n.N,), heads, n.K, n.L, keys, n.D)
        shape = *n.turn((), (n.N, 1), (heads,), (n.N, heads)), n.turn(n.L, 1), keys
        mask = mask_of(n.turn("causal", *MASKS), n.seed, n.turn(*DTYPES), *shape)
        scale, block = n.turn(None, -0.7, 2.5), n.turn(64, 8, 5, 3) if keys < 15 else 64
        agrees(flash, flash64, query * min(n.spread, 30.0), key, value * n.spread, scale, mask, block, seed=n)


@property_test
@given(block=st.integers(2, 12), seed=st.integers(0, 99))
def test_task_2_flash_block_makes_no_difference(block, seed):
    inputs = flash_inputs(seed, leading=(), length=6, keys=10)
    agrees(flash, flash64, *inputs, mask="causal", block=block, seed=seed)


def test_task_2_flash_refuses_uneven_groups():
    query, key, value = flash_inputs(16, heads=5)
    with raises_value_error("float32, query 5 x 5 x 4 x 8, key 5 x 2 x 7 x 8, value 5 x 2 x 7 x 8"):
        mx.eval(flash(query, key, value))


@pytest.mark.parametrize("keys", [5, 3])
def test_task_2_flash_refuses_a_causal_mask_for_more_queries_than_keys(keys):
    query, key, value = flash_inputs(17, leading=(2,), length=6, keys=keys)
    shapes = f"query 2 x 6 x 6 x 8, key 2 x 2 x {keys} x 8, value 2 x 2 x {keys} x 8"
    with raises_value_error(f'float32, {shapes}, mask "causal"'):
        mx.eval(flash(query, key, value, mask="causal"))


@pytest.mark.parametrize("word", ["future", "Causal", "causal ", ""])
def test_task_2_flash_refuses_unknown_masks(word):
    query, key, value = flash_inputs(18)
    shapes = "query 5 x 6 x 4 x 8, key 5 x 2 x 7 x 8, value 5 x 2 x 7 x 8"
    with raises_value_error(f"float32, {shapes}, mask {word or 'of an empty string'}"):
        mx.eval(flash(query, key, value, mask=word))
