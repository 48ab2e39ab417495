"""Week 1, day 3, task 2: grouped attention."""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import grouped64

from tiny_llm import attention
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, MASKS, broadcasting, causal, mask_of, normals
from tiny_llm_course.testkit.memory import copies_none_of
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def grouped(query, key, value, scale=None, mask=None):
    return attention.scaled_dot_product_attention_grouped(query, key, value, scale, mask)


def grouped_inputs(seed, dtype=mx.float32, leading=(5,), heads=6, kv_heads=2, length=4, keys=7, dims=8):
    """N, H, H_kv, L, S, D and the group's size 3 all differ: a mixed-up axis cannot hide."""
    draw = normals(seed, dtype)
    kv = (*leading, kv_heads, keys, dims)
    return draw(*leading, heads, length, dims), draw(*kv), draw(*kv)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("leading", [(), (5,), (2, 5)], ids=str)
def test_task_2_grouped_formula(leading, dtype):
    agrees(grouped, grouped64, *grouped_inputs(1, dtype, leading), seed=1)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (6, 6), (3, 1), (6, 3), (6, 1)])
def test_task_2_grouped_any_number_of_heads(heads, kv_heads):
    """From multi-head attention (H_kv = H) to multi-query attention (H_kv = 1)."""
    agrees(grouped, grouped64, *grouped_inputs(2, heads=heads, kv_heads=kv_heads), mask="causal", seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("keys", [4, 7])
def test_task_2_grouped_causal(keys, dtype):
    agrees(grouped, grouped64, *grouped_inputs(3, dtype, keys=keys), mask="causal", seed=3)


@pytest.mark.parametrize("scale", [1.0, 0.0, 0.3])
def test_task_2_grouped_scale(scale):
    agrees(grouped, grouped64, *grouped_inputs(4), scale=scale, seed=4)


def test_task_2_grouped_finite_mask():
    """Masks for all queries, per key, per head, per row of the batch, per row and head, and so on."""
    for shape in broadcasting(5, 6, 4, 7):
        agrees(grouped, grouped64, *grouped_inputs(5), mask=normals(50)(*shape, spread=2.0), seed=5)


@pytest.mark.parametrize("leading", [(), (2, 5)], ids=str)
def test_task_2_grouped_masks_for_other_leading_dimensions(leading):
    """No leading dimension and two of them, with every mask that broadcasts."""
    inputs = grouped_inputs(6, leading=leading)
    for mask in ("causal", *(normals(60)(*shape, spread=2.0) for shape in broadcasting(*leading, 6, 4, 7))):
        agrees(grouped, grouped64, *inputs, mask=mask, seed=6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_grouped_forbidding_mask(dtype):
    agrees(grouped, grouped64, *grouped_inputs(7, dtype), mask=causal(4, 7, dtype), seed=7)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_2_grouped_float32_mask(dtype):
    """A mask of another float dtype leaves the output in query's dtype."""
    agrees(grouped, grouped64, *grouped_inputs(8, dtype), mask=causal(4, 7, mx.float32), seed=8)


@pytest.mark.parametrize("masked", [False, True])
def test_task_2_grouped_mlx(masked):
    query, key, value = grouped_inputs(9)
    mask = normals(90)(6, 4, 7) if masked else None
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=1.5, mask=mask))
    agrees(grouped, grouped64, query, key, value, scale=1.5, mask=mask, seed=9, expected=expected)


def test_task_2_grouped_mlx_causal():
    query, key, value = grouped_inputs(10)
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=1.5, mask="causal"))
    agrees(grouped, grouped64, query, key, value, scale=1.5, mask="causal", seed=10, expected=expected)


@pytest.mark.parametrize("kv_heads", [1, 2, 6])
def test_task_2_grouped_pytorch(pytorch, kv_heads):
    query, key, value = grouped_inputs(11, kv_heads=kv_heads)
    mask = normals(110)(4, 7)

    def sdpa(torch, q, k, v, m):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m, enable_gqa=True)

    expected = pytorch(sdpa, query, key, value, mask)
    agrees(grouped, grouped64, query, key, value, mask=mask, seed=11, expected=expected)


def test_task_2_grouped_sweep():
    for n in sweep(N=131, K=20, G=20, L=257, X=4200, D=257):
        query, key, value = grouped_inputs(n.seed, n.dtype, (n.N,), n.K * n.G, n.K, n.L, n.L + n.X - 1, n.D)
        query, value = query * n.spread, value * n.spread
        agrees(grouped, grouped64, query, key, value, mask="causal", seed=n)
        if n.L * n.K * n.G * (n.L + n.X) < 10000:
            shape = *n.turn((), (n.N, 1), (n.K * n.G,), (n.N, n.K * n.G)), n.turn(n.L, 1), n.L + n.X - 1
            scale, mask = n.turn(None, -0.7, 2.5), mask_of(n.turn(*MASKS[::-1]), n.seed, n.turn(*DTYPES), *shape)
            agrees(grouped, grouped64, query, key, value, scale, mask, seed=n)


@property_test
@given(kv_heads=st.integers(1, 4), group=st.integers(1, 4), extra=st.integers(0, 3), seed=st.integers(0, 99))
def test_task_2_grouped_is_day_1_with_repeated_heads(kv_heads, group, extra, seed):
    """Day 1's attention on repeated key and value heads gives the same."""
    query, key, value = grouped_inputs(seed, mx.float32, (), kv_heads * group, kv_heads, 3, 3 + extra, 5)
    agrees(grouped, grouped64, query, key, value, mask="causal", seed=seed)
    output = grouped(query, key, value, mask="causal")
    keys, values = (mx.repeat(x, group, axis=-3) for x in (key, value))
    mask = causal(3, 3 + extra, mx.float32)
    repeated = attention.scaled_dot_product_attention_simple(query, keys, values, mask=mask)
    sizes = f"H {kv_heads * group}, H_kv {kv_heads}, L 3, S {3 + extra}, D 5"
    case = f"float32, {sizes}, causal, against day 1's attention on repeated heads, seed {seed}"
    compare(output, to_float64(repeated), mx.float32, 1e-5, case, query.size)


@property_test
@given(length=st.integers(1, 5), before=st.integers(0, 4), changed=st.integers(1, 8), seed=st.integers(0, 99))
def test_task_2_grouped_causal_keeps_the_past(length, before, changed, seed):
    """Changing the future does not change any earlier output, even with keys before the first query."""
    keys = before + length
    changed = min(changed, keys)  # keys and values change from here on
    query, key, value = grouped_inputs(seed, mx.float32, (), 4, 2, length, keys, 6)
    agrees(grouped, grouped64, query, key, value, mask="causal", seed=seed)
    noise = mx.where(mx.arange(keys)[:, None] < changed, 0.0, 5.0)
    first = grouped(query, key, value, mask="causal")
    second = grouped(query, key + noise, value - noise, mask="causal")
    kept = max(0, changed - before)
    case = f"float32, H 4, H_kv 2, L {length}, S {keys}, causal, keys and values changed from {changed} on, seed {seed}"
    compare(second[:, :kept], to_float64(first)[:, :kept], mx.float32, 1e-5, case, 4 * length * keys)


def test_task_2_grouped_copies_no_keys_or_values():
    """2 key-value heads for 32 query heads: repeated keys alone would take 8 times the memory of keys and values."""
    query, key, value = grouped_inputs(14, leading=(1,), heads=32, kv_heads=2, length=1, keys=2048, dims=64)
    agrees(grouped, grouped64, query, key, value, seed=14)
    case = "float32, query 1 x 32 x 1 x 64, key 1 x 2 x 2048 x 64, value 1 x 2 x 2048 x 64, seed 14"
    copies_none_of(lambda: grouped(query, key, value), "key and value", key, value, case=case)


def test_task_2_grouped_refuses_uneven_groups():
    query, key, value = grouped_inputs(12, heads=5, kv_heads=2)
    with raises_value_error("float32, query 5 x 5 x 4 x 8, key 5 x 2 x 7 x 8, value 5 x 2 x 7 x 8"):
        mx.eval(grouped(query, key, value))


def test_task_2_grouped_refuses_a_causal_mask_for_more_queries_than_keys():
    query, key, value = normals(17)(2, 4, 6, 3), normals(18)(2, 2, 5, 3), normals(19)(2, 2, 5, 3)
    with raises_value_error('float32, query 2 x 4 x 6 x 3, key 2 x 2 x 5 x 3, value 2 x 2 x 5 x 3, mask "causal"'):
        mx.eval(attention.scaled_dot_product_attention_grouped(query, key, value, mask="causal"))


@pytest.mark.parametrize("word", ["future", "none", "Causal", "caus", "causal ", ""])
def test_task_2_grouped_refuses_unknown_masks(word):
    query, key, value = grouped_inputs(13)
    shapes = "query 5 x 6 x 4 x 8, key 5 x 2 x 7 x 8, value 5 x 2 x 7 x 8"
    with raises_value_error(f"float32, {shapes}, mask {word or 'of an empty string'}"):
        mx.eval(grouped(query, key, value, mask=word))
