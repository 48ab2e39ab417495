"""Week 2, day 7: the online softmax, attention in blocks in Python, the kernel in C++ and that in Metal.

Each task is held to the formula in float64, to MLX's own operators and to PyTorch. Where blocks end must make no
difference, so they end in many places.
"""

import itertools
import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week2.formulas_day7 import average64, flash64, kernel64

from tiny_llm.flash_attention import attention, online_softmax
from tiny_llm.kernels import native
from tiny_llm.metal import attention as in_metal
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, MASKS, broadcasting, causal, forbidding, mask_of, normals
from tiny_llm_course.testkit.kernels import costs_at_most, fast
from tiny_llm_course.testkit.marks import on
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep

by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)

# Task 1, the online softmax


def online(scores, values, cuts=()):
    """The learner's average of values, of scores in blocks that end at `cuts`."""
    running = online_softmax.OnlineSoftmax(*scores.shape[:-1], values.shape[-1])
    for first, last in itertools.pairwise((0, *cuts, scores.shape[-1])):
        running.add(scores[..., first:last], values[..., first:last, :])
    return running.result()


def averages(scores, values, cuts=(), **options):
    """A learner's result is float32, whatever comes in."""
    agrees(online, average64, scores, values, cuts, dtype=mx.float32, **options)


def scores_and_values(seed, dtype=mx.float32, leading=(), length=3, keys=7, dims=5, spread=1.0):
    draw = normals(seed, dtype)
    return draw(*leading, length, keys, spread=spread), draw(*leading, keys, dims)


@by_dtype
@pytest.mark.parametrize("leading", [(), (4,), (2, 4)], ids=str)
def test_task_1_online_one_block(leading, dtype):
    averages(*scores_and_values(1, dtype, leading), seed=1)


@pytest.mark.parametrize("cuts", [(3,), (1,), (6,), (2, 5), (1, 2, 3, 4, 5, 6)], ids=str)
def test_task_1_online_any_split(cuts):
    averages(*scores_and_values(2, leading=(4,)), cuts, seed=2)


@by_dtype
def test_task_1_online_blocks_of_any_dtype(dtype):
    """All is computed in float32, also what is float16."""
    averages(*scores_and_values(3, dtype, keys=40), (7, 16, 33), seed=3)


def test_task_1_online_larger_and_larger():
    """Each block has a larger score than all before: everything that was kept must shrink."""
    scores, values = scores_and_values(4, keys=8)
    averages(scores + 3 * mx.arange(8), values, (2, 4, 6), seed=4)


def test_task_1_online_smaller_and_smaller():
    """The largest score comes first, and stays the one that all are relative to."""
    scores, values = scores_and_values(5, keys=8)
    averages(scores - 3 * mx.arange(8), values, (2, 4, 6), seed=5)


@pytest.mark.parametrize("shift", [-2000, 300, 2000])
def test_task_1_online_large_scores(shift):
    """exp(300) is more than float32 holds, and exp(-300) is 0."""
    scores, values = scores_and_values(6)
    averages(scores + shift, values, (2, 4), seed=6)


def test_task_1_online_rows_far_apart():
    """Each row has a largest score of its own."""
    scores, values = scores_and_values(17)
    averages(scores + 1000 * mx.arange(3)[:, None], values, (4,), seed=17)


def test_task_1_online_equal_scores():
    """The mean of all values."""
    averages(mx.zeros((2, 9)), normals(7)(9, 4), (4, 6), seed=7)


def test_task_1_online_some_hidden():
    scores, values = scores_and_values(8, leading=(2,))
    averages(forbidding(8, scores), values, (3,), seed=8)


@pytest.mark.parametrize("block", [0, 1, 2], ids=["first", "middle", "last"])
def test_task_1_online_a_block_is_hidden(block):
    """A mask may hide a whole block from some queries, also the first one, before there is any score."""
    scores, values = scores_and_values(9, length=4, keys=9)
    hidden = (mx.arange(9) // 3 == block) & (mx.arange(4)[:, None] % 2 == 0)
    averages(mx.where(hidden, -mx.inf, scores), values, (3, 6), seed=9)


@pytest.mark.parametrize("cuts", [(), (3,), (1, 2, 3, 4, 5, 6)], ids=str)
def test_task_1_online_all_hidden(cuts):
    """A query that sees no key gets zeros; the others are as ever."""
    scores, values = scores_and_values(10, length=4)
    averages(mx.where(mx.arange(4)[:, None] == 1, -mx.inf, scores), values, cuts, seed=10)


def test_task_1_online_values_for_several_heads():
    """The values of one head for three heads' scores."""
    scores, values = normals(11)(2, 3, 4, 7), normals(12)(2, 1, 7, 5)
    averages(scores, values, (2, 5), seed=11)


def test_task_1_online_nothing_yet():
    case = "float32, no block at all, of the shape 2 x 3"
    compare(online_softmax.OnlineSoftmax(2, 3).result(), np.zeros((2, 3)), mx.float32, 0.0, case, 6)


def test_task_1_online_goes_on_after_a_result():
    scores, values = scores_and_values(13)
    averages(scores, values, seed=13)
    running = online_softmax.OnlineSoftmax(3, 5)
    for last in range(1, 8):
        running.add(scores[:, last - 1 : last], values[last - 1 : last])
        expected = average64(to_float64(scores[:, :last]), to_float64(values[:last]))
        case = f"float32, scores 3 x {last}, values {last} x 5, key by key, result after each, seed 13"
        compare(running.result(), expected, mx.float32, 1e-5, case, 15)


def test_task_1_online_two_at_a_time():
    """Two of them know nothing of each other."""
    scores, values = scores_and_values(14)
    averages(scores, values, (4,), seed=14)
    one, other = online_softmax.OnlineSoftmax(3, 5), online_softmax.OnlineSoftmax(3, 5)
    for first, last in ((0, 4), (4, 7)):
        one.add(scores[:, first:last], values[first:last])
        other.add(-scores[:, first:last], values[first:last])
    expected = average64(-to_float64(scores), to_float64(values))
    compare(other.result(), expected, mx.float32, 1e-5, "float32, the second of two side by side, seed 14", 15)


def test_task_1_online_mlx():
    scores, values = scores_and_values(15, leading=(2,))
    expected = to_float64(mx.softmax(scores, axis=-1, precise=True) @ values)
    averages(scores, values, (3, 4), seed=15, expected=expected)


def test_task_1_online_pytorch(pytorch):
    scores, values = scores_and_values(16)
    expected = pytorch(lambda torch, scores, values: torch.softmax(scores, -1) @ values, scores, values)
    averages(scores, values, (3, 4), seed=16, expected=expected)


def test_task_1_online_sweep():
    for n in sweep(N=65, L=131, S=1100, D=70):
        scores, values = scores_and_values(n.seed, n.dtype, (n.N,), n.L, n.S, n.D, min(n.spread, 30.0))
        step = n.turn(64, n.S, 1, 7) if n.S <= 20 else 64
        hidden = n.turn(scores, forbidding(n.seed, scores)) if n.N * n.L * n.S < 10000 else scores
        averages(hidden + n.shift, values, tuple(range(step, n.S, step)), seed=n)


@property_test
@given(cuts=st.sets(st.integers(1, 11)), seed=st.integers(0, 99))
def test_task_1_online_split_makes_no_difference(cuts, seed):
    averages(*scores_and_values(seed, keys=12), tuple(sorted(cuts)), seed=seed)


# Task 2, attention in blocks


def flash(query, key, value, scale=None, mask=None, block=128):
    return attention.flash_attention(query, key, value, scale, mask, block)


def flash_inputs(seed, dtype=mx.float32, leading=(5,), heads=6, kv_heads=2, length=4, keys=7, dims=8):
    """N, H, H_kv, L, S, D and the group's size 3 all differ."""
    draw = normals(seed, dtype)
    kv = (*leading, kv_heads, keys, dims)
    return draw(*leading, heads, length, dims), draw(*kv), draw(*kv)


@by_dtype
@pytest.mark.parametrize("leading", [(), (5,), (2, 5)], ids=str)
def test_task_2_flash_formula(leading, dtype):
    agrees(flash, flash64, *flash_inputs(1, dtype, leading), block=3, seed=1)


@pytest.mark.parametrize("block", [1, 2, 3, 4, 5, 7, 8, 128])
def test_task_2_flash_blocks(block):
    """Blocks that divide neither L nor S, that are longer than one of them, and longer than both."""
    agrees(flash, flash64, *flash_inputs(2), block=block, seed=2)


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


@pytest.mark.parametrize("scale", [1.0, 0.0, -0.3])
def test_task_2_flash_scale(scale):
    agrees(flash, flash64, *flash_inputs(6), scale=scale, block=3, seed=6)


def test_task_2_flash_finite_mask():
    """A bias for all, for each key, for each head, for each row of the batch, for each row and head, and so on."""
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
def test_task_2_flash_hidden_blocks(block):
    """A mask that hides whole blocks of keys from some queries, and all keys from one."""
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


@pytest.mark.parametrize("behind", [math.nan, math.inf, 3e38])
def test_task_2_flash_skips_what_is_hidden(behind):
    """Of 16 keys in blocks of 4 the last block is hidden from the first 12 queries: what is in it is not looked at."""
    query, key, value = flash_inputs(14, leading=(), length=16, keys=16)
    last = mx.arange(16)[:, None] >= 12
    agrees(flash, flash64, query, key, value, mask="causal", block=4, seed=14)
    expected = flash64(*map(to_float64, (query, key, value)), mask="causal")[:, :12]
    actual = flash(query, mx.where(last, behind, key), mx.where(last, behind, value), mask="causal", block=4)
    case = f'float32, query 6 x 16 x 8, key 2 x 16 x 8, mask "causal", block 4, {behind} in the last 4 keys, seed 14'
    compare(actual[:, :12], expected, mx.float32, 1e-5, case, query.size)


@pytest.mark.parametrize(("length", "keys"), [(1024, 1024), (64, 16384)])
def test_task_2_flash_holds_no_table_of_scores(length, keys):
    """Less than one byte for each score, whatever they are kept in."""
    query, key, value = flash_inputs(15, leading=(), heads=2, kv_heads=1, length=length, keys=keys)
    agrees(flash, flash64, *flash_inputs(15, length=70, keys=130), mask="causal", block=64, seed=15)
    case = f'float32, query 2 x {length} x 8, key 1 x {keys} x 8, mask "causal", block 64, seed 15'
    scores = 2 * length * keys
    run = lambda: flash(query, key, value, mask="causal", block=64)  # noqa: E731
    holds_less(run, scores, "one byte for each score", case=case)


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


def test_task_2_flash_refuses_a_causal_mask_for_more_queries_than_keys():
    query, key, value = flash_inputs(17, leading=(2,), length=6, keys=5)
    with raises_value_error('float32, query 2 x 6 x 6 x 8, key 2 x 2 x 5 x 8, value 2 x 2 x 5 x 8, mask "causal"'):
        mx.eval(flash(query, key, value, mask="causal"))


@pytest.mark.parametrize("word", ["future", "Causal", "causal ", ""])
def test_task_2_flash_refuses_unknown_masks(word):
    query, key, value = flash_inputs(18)
    shapes = "query 5 x 6 x 4 x 8, key 5 x 2 x 7 x 8, value 5 x 2 x 7 x 8"
    with raises_value_error(f"float32, {shapes}, mask {word or 'of no letters'}"):
        mx.eval(flash(query, key, value, mask=word))


# Task 3, the kernel


def kernel_inputs(seed, heads=6, kv_heads=2, length=4, tokens=7, dims=8, spread=1.0):
    draw = normals(seed)
    kv = kv_heads, tokens, dims
    return draw(length, heads, dims, spread=spread), draw(*kv), draw(*kv)


@pytest.mark.parametrize("tokens", [1, 2, 3, 7, 95, 96, 97, 98, 193, 290])
def test_task_3_kernel_decode(tokens):
    """One query: fewer keys than a block has, as many, more."""
    agrees(native.flash, kernel64, *kernel_inputs(1, length=1, tokens=tokens), 0.4, seed=1)


@pytest.mark.parametrize("length", [2, 3, 23, 24, 25, 49])
def test_task_3_kernel_prefill(length):
    """Fewer queries than a block has, as many, more; with no token before them."""
    agrees(native.flash, kernel64, *kernel_inputs(2, length=length, tokens=length), 0.4, seed=2)


@pytest.mark.parametrize(("length", "tokens"), [(5, 96), (5, 98), (26, 97), (30, 200), (98, 98)])
def test_task_3_kernel_tokens_before(length, tokens):
    """A prompt that goes on: the last block of keys is hidden from some queries, or from some of a block."""
    agrees(native.flash, kernel64, *kernel_inputs(3, 2, 1, length, tokens), 0.4, seed=3)


@pytest.mark.parametrize("dims", [1, 4, 7, 16, 20, 36, 64, 128])
def test_task_3_kernel_dims(dims):
    agrees(native.flash, kernel64, *kernel_inputs(4, dims=dims), 1 / math.sqrt(dims), seed=4)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (2, 1), (5, 5), (5, 1), (8, 2), (12, 4)])
def test_task_3_kernel_heads(heads, kv_heads):
    agrees(native.flash, kernel64, *kernel_inputs(5, heads, kv_heads), 0.5, seed=5)


def test_task_3_kernel_equal_scores():
    """With queries of zeros it is the mean of all values that a query sees."""
    _, keys, values = kernel_inputs(6, kv_heads=1, length=1, tokens=200)
    agrees(native.flash, kernel64, mx.zeros((5, 2, 8)), keys, values, 0.5, seed=6)


def test_task_3_kernel_large_scores():
    """exp(300) is more than float32 holds: scores count relative to the largest."""
    agrees(native.flash, kernel64, *kernel_inputs(7, 2, 1, length=30, tokens=130, spread=40), 2.0, seed=7)


def test_task_3_kernel_scores_far_below_zero():
    """exp(-160) is 0 in float32: the largest score of a query may itself be far below 0."""
    queries, keys, values = kernel_inputs(12, 2, 1, length=30, tokens=130)
    agrees(native.flash, kernel64, -20 - mx.abs(queries), 1 + mx.abs(keys), values, 1.0, seed=12)


@pytest.mark.parametrize("rising", [True, False])
def test_task_3_kernel_moving_maximum(rising):
    """The largest score of each block is larger, or smaller, than that of the block before."""
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


def test_task_3_kernel_again_and_again():
    """The fast build, many times: whoever takes which block, nothing else comes out."""
    inputs = kernel_inputs(11, length=100, tokens=150)
    expected = kernel64(*map(to_float64, inputs), 0.5)
    native.flash(*kernel_inputs(11), 0.5)  # watched: what has done nothing wrong may be run fast
    for _ in range(30):
        again = fast(native.flash)(*inputs, 0.5)
        compare(again, expected, mx.float32, 1e-5, "float32, queries 100 x 6 x 8, one call of 30, seed 11", 4800)


def test_task_3_kernel_sweep():
    for n in sweep(K=20, G=9, L=260, X=1100, D=257):
        if n.dtype != mx.float32:
            continue
        inputs = kernel_inputs(n.seed, n.K * n.G, n.K, n.L, n.L + n.X - 1, n.D, min(n.spread, 30.0))
        agrees(fast(native.flash), kernel64, *inputs, n.turn(0.3, 1.0), seed=n)


# Task 4, the kernel in Metal


def few_inputs(seed, length, keys, dims=8, dtype=mx.float32):
    """Two heads that share keys."""
    return flash_inputs(seed, dtype, (), 2, 1, length, keys, dims)


def in_blocks(query, key, value, scale=None, mask=None):
    return in_metal.flash_attention(query, key, value, scale, mask)


@by_dtype
@pytest.mark.parametrize("leading", [(), (5,), (2, 3)], ids=str)
def test_task_4_metal_formula(leading, dtype):
    agrees(in_blocks, flash64, *flash_inputs(1, dtype, leading), seed=1)


@pytest.mark.parametrize("length", [1, 3, 15, 16, 17, 33])
def test_task_4_metal_queries(length):
    """Fewer queries than a block has, as many, more."""
    agrees(in_blocks, flash64, *few_inputs(2, length, 7), seed=2)


@pytest.mark.parametrize("keys", [1, 2, 31, 32, 33, 64, 65, 100])
def test_task_4_metal_keys(keys):
    """Fewer keys than a block has, as many, more."""
    agrees(in_blocks, flash64, *few_inputs(3, 3, keys), seed=3)


@by_dtype
def test_task_4_metal_causal(dtype):
    agrees(in_blocks, flash64, *flash_inputs(4, dtype), mask="causal", seed=4)


@pytest.mark.parametrize(
    ("length", "keys"), [(1, 70), (9, 9), (17, 17), (33, 33), (5, 32), (5, 33), (18, 66), (33, 97)]
)
def test_task_4_metal_causal_blocks(length, keys):
    """The diagonal goes through a block, or along its edge; the last block of keys is hidden from some queries."""
    agrees(in_blocks, flash64, *few_inputs(5, length, keys), mask="causal", seed=5)


@pytest.mark.parametrize("dims", [1, 7, 31, 32, 33, 64, 80, 128])
def test_task_4_metal_dims(dims):
    agrees(in_blocks, flash64, *few_inputs(6, 3, 7, dims), seed=6)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (3, 1), (6, 3), (6, 2)])
def test_task_4_metal_heads(heads, kv_heads):
    agrees(in_blocks, flash64, *flash_inputs(7, heads=heads, kv_heads=kv_heads), seed=7)


@pytest.mark.parametrize("scale", [1.0, 0.0, -0.3])
def test_task_4_metal_scale(scale):
    agrees(in_blocks, flash64, *few_inputs(8, 4, 40), scale=scale, seed=8)


@pytest.mark.parametrize("mask", [None, "causal"])
def test_task_4_metal_equal_scores(mask):
    """With queries of zeros it is the mean of all values that a query sees."""
    query, key, value = few_inputs(9, 5, 70)
    agrees(in_blocks, flash64, 0 * query, key, value, mask=mask, seed=9)


def test_task_4_metal_weights():
    """The values are the rows of an identity: what comes out are the weights."""
    query, key, _ = few_inputs(10, 5, 40, 40)
    agrees(in_blocks, flash64, query, key, mx.eye(40)[None], mask="causal", seed=10)


@pytest.mark.parametrize("rising", [True, False])
def test_task_4_metal_moving_maximum(rising):
    """The largest score of each block is larger, or smaller, than that of the block before."""
    query, key, value = few_inputs(11, 2, 100)
    key = key + mx.arange(100)[:, None] * (0.1 if rising else -0.1)
    agrees(in_blocks, flash64, mx.abs(query), key, value, seed=11)


@pytest.mark.parametrize("mask", [None, "causal"])
def test_task_4_metal_large_scores(mask):
    """exp(300) is more than float32 holds: scores count relative to the largest."""
    query, key, value = few_inputs(12, 18, 70)
    agrees(in_blocks, flash64, 40 * query, key, value, 2.0, mask, seed=12)


def test_task_4_metal_large_sums():
    """Each value fits into float16; their sum, before it is divided, does not."""
    query, key, value = few_inputs(13, 2, 40, dtype=mx.float16)
    agrees(in_blocks, flash64, query, key, value + 20000, seed=13)


@pytest.mark.parametrize("behind", [math.nan, math.inf, 3e38])
def test_task_4_metal_skips_what_is_hidden(behind):
    """Of 48 keys the last 16 are hidden from the first 32 queries, in two blocks: they are not looked at."""
    query, key, value = few_inputs(14, 48, 48)
    last = mx.arange(48)[:, None] >= 32
    agrees(in_blocks, flash64, query, key, value, mask="causal", seed=14)
    expected = flash64(*map(to_float64, (query, key, value)), mask="causal")[:, :32]
    actual = in_blocks(query, mx.where(last, behind, key), mx.where(last, behind, value), mask="causal")
    case = f'float32, query 2 x 48 x 8, key 1 x 48 x 8, mask "causal", {behind} in the last 16 keys, seed 14'
    compare(actual[:, :32], expected, mx.float32, 1e-5, case, query.size)


@pytest.mark.parametrize("mask", [None, "causal"])
def test_task_4_metal_mlx(mask):
    query, key, value = flash_inputs(15)
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask))
    agrees(in_blocks, flash64, query, key, value, 0.5, mask, seed=15, expected=expected)


def test_task_4_metal_pytorch(pytorch):
    query, key, value = few_inputs(16, 20, 20)

    def sdpa(torch, q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    expected = pytorch(sdpa, query, key, value)
    agrees(in_blocks, flash64, query, key, value, mask="causal", seed=16, expected=expected)


def metal_costs_at_most(seed, mask, dtype=mx.float32, **enough):
    """Each block of 16 queries needs the keys and values that it sees, once, in whole blocks of 32."""
    query, key, value = flash_inputs(seed, dtype, (), 1, 1, 96, 96, 32)
    blocks = sum(min(96, 32 * math.ceil(last / 32)) if mask else 96 for last in range(16, 97, 16))
    moved = 2 * (query.nbytes + query.nbytes) + 2 * blocks * 32 * dtype.size
    costs_at_most(in_blocks, query, key, value, None, mask, seed=seed, moved=moved, **enough)


@by_dtype
def test_task_4_metal_moves(dtype):
    """No scores: queries, keys, values and the output."""
    metal_costs_at_most(17, None, dtype)


def test_task_4_metal_skipped_blocks_are_not_moved():
    metal_costs_at_most(18, "causal")


def test_task_4_metal_banks():
    """No thread waits for another one's bank."""
    query, key, value = few_inputs(19, 16, 64, 128)
    costs_at_most(in_blocks, query, key, value, seed=19, bank_conflicts=0)


@on("gpu")
def test_task_4_metal_on_the_gpu():
    for dtype in DTYPES:
        for mask in (None, "causal"):
            agrees(in_blocks, flash64, *flash_inputs(20, dtype, (2,), 6, 2, 37, 131, 128), mask=mask, seed=20)


def test_task_4_metal_sweep():
    for n in sweep(K=5, G=4, L=40, X=140, D=65):
        query, key, value = flash_inputs(n.seed, n.dtype, (), n.K * n.G, n.K, n.L, n.L + n.X - 1, n.D)
        scale, mask = n.turn(None, -0.7, 2.5), n.turn("causal", None)
        agrees(in_blocks, flash64, query * min(n.spread, 30.0), key, value * n.spread, scale, mask, seed=n)
