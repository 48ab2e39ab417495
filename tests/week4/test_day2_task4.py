"""Task 4.2.4, attention that returns its weights, checked against its formula, MLX's operators and PyTorch."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day2 import next_stays64, weights64
from tests.week4.fused import looks, one_of

from tiny_llm.fused_qkv import attention
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word, noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, MASKS, broadcasting, causal, mask_of, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def attended(
    query, key, value, scale=None, mask=None, may_look=None, rate=0.0, training=False, chance=0, part="output"
):
    mask = mask if may_look is None else may_look
    drops = (rate, training, mx.random.key(chance)) if rate or training else ()
    found = attention.attention_with_weights(query, key, value, scale, mask, *drops)
    return one_of(found, part, "output", "weights")


def weighs(*inputs, seed, expected=None, **named):
    """Check the weights first: they say more. `expected` is another oracle's answer for some of the parts."""
    for part in ("weights", "output"):
        by = (expected or {}).get(part)
        agrees(attended, weights64, *inputs, **named, part=part, seed=seed, expected=by)


def heads_of(seed, dtype=mx.float32, leading=(5,), heads=6, kv_heads=2, length=4, keys=7, dims=8):
    """N, H, H_kv, L, S, D and the group's size 3 all differ."""
    draw = normals(seed, dtype)
    kv = (*leading, kv_heads, keys, dims)
    return draw(*leading, heads, length, dims), draw(*kv), draw(*kv)


@by_dtype
@pytest.mark.parametrize("leading", [(), (5,), (2, 5)], ids=str)
def test_task_4_weights_formula(leading, dtype):
    weighs(*heads_of(1, dtype, leading), seed=1)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (3, 1), (6, 3)])
def test_task_4_weights_any_number_of_heads(heads, kv_heads):
    weighs(*heads_of(2, heads=heads, kv_heads=kv_heads), seed=2)


@by_dtype
@pytest.mark.parametrize("keys", [4, 7])
def test_task_4_weights_causal(keys, dtype):
    weighs(*heads_of(3, dtype, keys=keys), mask="causal", seed=3)


@pytest.mark.parametrize("scale", [1.0, 0.0, 0.3])
def test_task_4_weights_scale(scale):
    weighs(*heads_of(4), scale=scale, seed=4)


@pytest.mark.parametrize("scale", [2.0, 0.0, -0.7])
def test_task_4_weights_scale_leaves_the_mask_as_it_is(scale):
    """What a mask hides stays hidden at any scale, and a bias is added after scaling."""
    weighs(*heads_of(20), scale=scale, may_look=looks(200, 4, 7), seed=20)
    weighs(*heads_of(20), scale=scale, mask="causal", seed=20)
    weighs(*heads_of(20), scale=scale, mask=normals(201)(4, 7), seed=20)


def test_task_4_weights_finite_mask():
    for shape in broadcasting(5, 6, 4, 7):
        weighs(*heads_of(5), mask=normals(50)(*shape, spread=2.0), seed=5)


@by_dtype
def test_task_4_weights_boolean_mask(dtype):
    """True allows: for each key, for each query, for each head, for each sequence."""
    for shape in ((7,), (4, 7), (6, 4, 7), (5, 1, 1, 7), (5, 6, 4, 7)):
        weighs(*heads_of(6, dtype), may_look=looks(60, *shape), seed=6)


@pytest.mark.parametrize("other", DTYPES, ids=str)
@by_dtype
def test_task_4_weights_mask_of_any_float_dtype(dtype, other):
    """A mask of another float dtype leaves both results in query's dtype, and is added without rounding the scores."""
    weighs(*heads_of(7, dtype), mask=causal(4, 7, other), seed=7)
    weighs(*heads_of(7, dtype), mask=normals(70, other)(4, 7), seed=7)


@by_dtype
def test_task_4_weights_rows_far_below_zero(dtype):
    """A bias near -100,000 for every key hides none, even in float16, which cannot represent it."""
    query, key, value = heads_of(19, dtype)
    for bias in (-1e5, 1e5):
        weighs(query, key, value, mask=normals(190)(4, 7) + bias, seed=19)
    shapes = "query 5 x 6 x 4 x 8, key 5 x 2 x 7 x 8, value 5 x 2 x 7 x 8"
    case = f"{dtype_word(dtype)}, the sums of the weights' rows, {shapes}, mask 4 x 7 of -100,000, seed 19"
    with noted(case):
        weights = attended(query, key, value, mask=mx.full((4, 7), -1e5), part="weights")
    compare(mx.sum(weights.astype(mx.float32), axis=-1), np.ones((5, 6, 4)), mx.float32, 0.05, case, query.size)


@by_dtype
def test_task_4_weights_fully_masked_row(dtype):
    """Query 1 sees no key, first by booleans, then by infinities."""
    sees = mx.arange(4)[:, None] != 1
    weighs(*heads_of(8, dtype), may_look=mx.broadcast_to(sees, (4, 7)), seed=8)
    weighs(*heads_of(8, dtype), mask=mx.where(sees, mx.zeros((4, 7)), -mx.inf).astype(dtype), seed=8)


@pytest.mark.parametrize("masked", [False, True])
def test_task_4_weights_mlx(masked):
    query, key, value = heads_of(9)
    may_look = looks(90, 6, 4, 7) if masked else None
    expected = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=may_look)
    # with the identity as values, the output is the weights
    eye = mx.broadcast_to(mx.eye(7), (5, 2, 7, 7))
    weights = mx.fast.scaled_dot_product_attention(query, key, eye, scale=0.5, mask=may_look)
    both = {"output": to_float64(expected), "weights": to_float64(weights)}
    weighs(query, key, value, scale=0.5, may_look=may_look, seed=9, expected=both)


def test_task_4_weights_pytorch(pytorch):
    """PyTorch's attention also gives zeros for a fully masked row."""
    query, key, value = heads_of(10)
    may_look = looks(100, 4, 7) & (mx.arange(4)[:, None] != 2)

    def sdpa(torch, q, k, v, m):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m > 0, enable_gqa=True)

    expected = {"output": pytorch(sdpa, query, key, value, may_look)}
    weighs(query, key, value, may_look=may_look, seed=10, expected=expected)


@by_dtype
@pytest.mark.parametrize("rate", [0.1, 0.6, 1.0])
def test_task_4_weights_dropout(rate, dtype):
    """The output uses the weights after dropout; the returned weights are those before it."""
    weighs(*heads_of(11, dtype), mask="causal", rate=rate, training=True, chance=110, seed=11)


@pytest.mark.parametrize(("rate", "training"), [(0.6, False), (0.0, True)])
def test_task_4_weights_dropout_off(rate, training):
    weighs(*heads_of(12), rate=rate, training=training, chance=120, seed=12)


def test_task_4_weights_dropout_fully_masked_row():
    sees = mx.broadcast_to(mx.arange(4)[:, None] != 1, (4, 7))
    weighs(*heads_of(13), may_look=sees, rate=0.4, training=True, chance=130, seed=13)


def test_task_4_weights_without_a_random_key():
    """Without a key, MLX's global random state: seeded by `mx.random.seed`, and different in each call."""
    query, key, value = heads_of(21)
    values = np.repeat(to_float64(value), 3, axis=-3)
    weights = weights64(*(to_float64(x) for x in (query, key, value)), part="weights")
    for seed in (210, 211):
        mx.random.seed(seed)
        expected = [weights * next_stays64(0.4, weights.shape) / 0.6 @ values for _ in range(2)]
        mx.random.seed(seed)
        case = "float32, query 5 x 6 x 4 x 8, key and value 5 x 2 x 7 x 8, rate 0.4, training, two calls without a key"
        case += f" after mx.random.seed({seed}), seed 21"
        for each in expected:
            with noted(case):
                output, _ = attention.attention_with_weights(query, key, value, rate=0.4, training=True)
            compare(output, each, mx.float32, 1e-5, case, query.size, indirect=False)


def test_task_4_weights_large_scores():
    query, key, value = heads_of(14)
    weighs(query * 40, key * 40, value, mask="causal", seed=14)


def test_task_4_weights_sweep():
    for n in sweep(K=20, G=9, L=65, X=1100, D=130):
        query, key, value = heads_of(n.seed, n.dtype, (2,), n.K * n.G, n.K, n.L, n.L + n.X - 1, n.D)
        shape = *n.turn((), (2, 1), (n.K * n.G,)), n.L, n.L + n.X - 1
        named = {"mask": mask_of(n.turn("causal", *MASKS[:3]), n.seed, n.dtype, *shape)}
        if n.turn(False, True):
            named = {"may_look": looks(n.seed, *shape)}
        weighs(query * n.spread, key, value * n.spread, **named, seed=n)


@property_test
@given(kv_heads=st.integers(1, 3), group=st.integers(1, 3), seed=st.integers(0, 99))
def test_task_4_weights_rows_sum_to_one(kv_heads, group, seed):
    """Also in training: the returned weights have not been dropped."""
    query, key, value = heads_of(seed, mx.float32, (), kv_heads * group, kv_heads, 3, 5)
    weighs(query, key, value, rate=0.5, training=True, chance=seed, seed=seed)
    weights = attended(query, key, value, rate=0.5, training=True, chance=seed, part="weights")
    case = f"float32, the sums of the weights' rows, H {kv_heads * group}, H_kv {kv_heads}, rate 0.5, seed {seed}"
    compare(weights.sum(axis=-1), np.ones((kv_heads * group, 3)), mx.float32, 1e-5, case, query.size)


def test_task_4_weights_refuses_uneven_groups():
    with raises_value_error("float32, query 5 x 5 x 4 x 8, key 5 x 2 x 7 x 8, value 5 x 2 x 7 x 8"):
        attention.attention_with_weights(*heads_of(15, heads=5))


@pytest.mark.parametrize("word", ["future", "Causal", ""])
def test_task_4_weights_refuses_unknown_masks(word):
    with raises_value_error(f"float32, query 5 x 6 x 4 x 8, key 5 x 2 x 7 x 8, mask {word or 'of no letters'}"):
        attention.attention_with_weights(*heads_of(16), mask=word)


def test_task_4_weights_refuses_a_causal_mask_for_more_queries_than_keys():
    with raises_value_error('float32, query 5 x 6 x 4 x 8, key 5 x 2 x 3 x 8, mask "causal"'):
        attention.attention_with_weights(*heads_of(17, keys=3), mask="causal")


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("rate", [1.5, -0.1, math.nan])
def test_task_4_weights_refuses_other_rates(rate, training):
    with raises_value_error(f"float32, query 5 x 6 x 4 x 8, rate {rate}, training {training}", str(rate)):
        mx.eval(attention.attention_with_weights(*heads_of(18), rate=rate, training=training))
