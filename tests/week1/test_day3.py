"""Week 1, day 3: the causal mask, grouped attention, Qwen3's attention.

Each task is held to its formula in float64, to MLX's own operators and to PyTorch, in three dtypes; then to properties.
"""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import attention64, causal64, grouped64, qwen_attention64

from tiny_llm import attention, qwen3
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import CASE_NOTE, dtype_word
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, MASKS, NAMED_MASKS, broadcasting, causal, mask_of, normals
from tiny_llm_course.testkit.memory import copies_none_of
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import narrow, sizes, sweep

# Task 1, causal mask


def mask_agrees(length, keys, dtype, expected=None):
    """Every entry of a mask is 0 or -inf, so that there is nothing to round."""
    case = f"{dtype_word(dtype)}, L {length}, S {keys}"
    try:
        mask = attention.causal_mask(length, keys, dtype)
    except Exception as error:
        error.add_note(f"{CASE_NOTE}{case}")
        raise
    by_formula = causal64(length, keys) if expected is None else expected
    compare(mask, by_formula, dtype, 0.0, case, length * keys, indirect=False)
    return mask


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("length", "keys"), [(1, 1), (1, 4), (3, 3), (2, 5), (3, 5), (4, 7)])
def test_task_1_mask_formula(length, keys, dtype):
    mask_agrees(length, keys, dtype)


def test_task_1_mask_two_of_five_tokens():
    """`blue` and `dog` arrive when `That is a` is already there, as chapter 1.3 prints it."""
    mask_agrees(2, 5, mx.float32, np.array([[0, 0, 0, 0, -math.inf], [0, 0, 0, 0, 0]]))


def test_task_1_mask_mlx():
    """In MLX's own operator, the mask does what the operator's "causal" does."""
    mask, draw = mask_agrees(3, 5, mx.float32), normals(1)
    query, key, value = draw(2, 4, 3, 8), draw(2, 4, 5, 8), draw(2, 4, 5, 8)
    masked = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask)
    named = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask="causal")
    case = "float32, L 3, S 5, the mask in MLX's own attention, seed 1"
    compare(masked, to_float64(named), mx.float32, 1e-5, case, 15)


@pytest.mark.parametrize(("length", "keys"), [(4, 4), (3, 5)])
def test_task_1_mask_pytorch(pytorch, length, keys):
    def upper_triangle(torch, length, keys):
        return torch.full((length, keys), -math.inf).triu(keys - length + 1)

    mask_agrees(length, keys, mx.float32, pytorch(upper_triangle, length, keys))


def test_task_1_mask_pytorch_lower_right(pytorch):
    """PyTorch's attention with its own lower-right bias gives what the formula gives with the mask."""
    mask, draw = mask_agrees(3, 5, mx.float32), normals(2)
    query, key, value = draw(2, 3, 4), draw(2, 5, 4), draw(2, 5, 4)

    def attend(torch, query, key, value):
        from torch.nn.attention.bias import causal_lower_right

        inputs, bias = (x[None] for x in (query, key, value)), causal_lower_right(3, 5)
        return torch.nn.functional.scaled_dot_product_attention(*inputs, attn_mask=bias)[0]

    expected = pytorch(attend, query, key, value)
    by_formula = attention64(to_float64(query), to_float64(key), to_float64(value), mask=to_float64(mask))
    case = "float32, L 3, S 5, the mask in PyTorch's attention, seed 2"
    compare(mx.array(by_formula.astype(np.float32)), expected, mx.float32, 1e-5, case, 15)


@property_test
@given(keys=st.integers(1, 9), length=st.integers(1, 9))
def test_task_1_mask_is_the_last_rows_of_the_whole(keys, length):
    """Queries that arrive later see what they would have seen had all come at once."""
    length = min(length, keys)
    whole = mask_agrees(keys, keys, mx.float32)
    case = f"float32, L {length}, S {keys}, against the last {length} rows of L {keys}, S {keys}"
    mask = attention.causal_mask(length, keys, mx.float32)
    compare(mask, to_float64(whole)[keys - length :], mx.float32, 0.0, case, length * keys)


def test_task_1_mask_sweep():
    largest = {"L": 1100, "X": 4200}
    for n in (*sizes(**largest), *narrow(**largest)):
        mask_agrees(n.L, n.L + n.X - 1, n.dtype)


@pytest.mark.parametrize(("length", "keys"), [(2, 1), (5, 3)])
def test_task_1_mask_refuses_more_queries_than_keys(length, keys):
    with raises_value_error(f"float32, L {length}, S {keys}"):
        mx.eval(attention.causal_mask(length, keys, mx.float32))


# Task 2, grouped attention


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
    """A bias for all, for each key, for each head, for each row of the batch, for each row and head, and so on."""
    for shape in broadcasting(5, 6, 4, 7):
        agrees(grouped, grouped64, *grouped_inputs(5), mask=normals(50)(*shape, spread=2.0), seed=5)


def test_task_2_grouped_mask_without_batch():
    agrees(grouped, grouped64, *grouped_inputs(6, leading=()), mask=normals(60)(6, 4, 7, spread=2.0), seed=6)


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
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask))
    agrees(grouped, grouped64, query, key, value, scale=0.5, mask=mask, seed=9, expected=expected)


def test_task_2_grouped_mlx_causal():
    query, key, value = grouped_inputs(10)
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask="causal"))
    agrees(grouped, grouped64, query, key, value, scale=0.5, mask="causal", seed=10, expected=expected)


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
    """Day 1's attention on key and value heads written out for every query head gives the same."""
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
    """Another future leaves every earlier output, also when some keys were there before the first query."""
    keys = before + length
    changed = min(changed, keys)  # keys and values from here on are others
    query, key, value = grouped_inputs(seed, mx.float32, (), 4, 2, length, keys, 6)
    agrees(grouped, grouped64, query, key, value, mask="causal", seed=seed)
    noise = mx.where(mx.arange(keys)[:, None] < changed, 0.0, 5.0)
    first = grouped(query, key, value, mask="causal")
    second = grouped(query, key + noise, value - noise, mask="causal")
    kept = max(0, changed - before)
    case = f"float32, H 4, H_kv 2, L {length}, S {keys}, causal, keys and values changed from {changed} on, seed {seed}"
    compare(second[:, :kept], to_float64(first)[:, :kept], mx.float32, 1e-5, case, 4 * length * keys)


def test_task_2_grouped_copies_no_keys_or_values():
    """2 key-value heads for 32 query heads: copied for each, keys or values alone would take 8 times what both hold."""
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
    with raises_value_error(f"float32, {shapes}, mask {word or 'of no letters'}"):
        mx.eval(grouped(query, key, value, mask=word))


# Task 3, Qwen3 attention


def up_to(max_seq_len):
    """The learner's layer for so many tokens, with the parameters of its formula."""

    @built
    def qwen_attention(
        x, num_heads, num_kv_heads, wq, wk, wv, wo, q_norm=None, k_norm=None, bq=None, bk=None, bv=None,
        theta=1000000, eps=1e-6, mask=None,
    ):  # fmt: skip
        head_dim = wq.shape[0] // num_heads
        layer = qwen3.Qwen3MultiHeadAttention(
            x.shape[-1], num_heads, num_kv_heads, head_dim, wq, wk, wv, wo, q_norm=q_norm, k_norm=k_norm,
            bq=bq, bk=bk, bv=bv, max_seq_len=max_seq_len, theta=theta, rms_norm_eps=eps,
        )  # fmt: skip
        return lambda x, mask: layer(x) if mask is None else layer(x, mask)

    return qwen_attention


qwen_attention = up_to(16)


def qwen_inputs(seed, dtype=mx.float32, batch=4, length=5, hidden=7, heads=6, kv_heads=3, dims=8):
    """N, L, E, H, H_kv, D and the group's size 2 all differ, and E is not H * D."""
    draw = normals(seed, dtype)
    q, kv = heads * dims, kv_heads * dims
    x, wo = draw(batch, length, hidden), draw(hidden, q, spread=q**-0.5)
    wq, wk, wv = (draw(rows, hidden, spread=hidden**-0.5) for rows in (q, kv, kv))
    return x, heads, kv_heads, wq, wk, wv, wo


def norms(seed, dtype=mx.float32, dims=8):
    """Qwen3's extra weights, not ones: on ones, exchanged weights and a norm after RoPE go unnoticed."""
    draw = normals(seed, dtype)
    return {"q_norm": 1 + draw(dims, spread=0.5), "k_norm": 1 + draw(dims, spread=0.5)}


def biases(seed, dtype=mx.float32, heads=6, kv_heads=3, dims=8):
    """Qwen2.5's extra weights."""
    draw = normals(seed, dtype)
    return {"bq": draw(heads * dims), "bk": draw(kv_heads * dims), "bv": draw(kv_heads * dims)}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batch", [1, 4])
def test_task_3_qwen3_formula(batch, dtype):
    extra = norms(10, dtype)
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(1, dtype, batch), **extra, theta=500, mask="causal", seed=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_3_qwen3_biases(dtype):
    """Qwen2.5: biases, and no norms."""
    extra = biases(20, dtype)
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(2, dtype), **extra, theta=500, mask="causal", seed=2)


@pytest.mark.parametrize("names", ["q_norm", "k_norm", "bq", "bk", "bv", "q_norm k_norm bq bk bv"])
def test_task_3_qwen3_norms_and_biases_apart(names):
    """Each may be None while others are not."""
    every = norms(120) | biases(121)
    extra = {name: every[name] for name in names.split()}
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(12), **extra, theta=500, mask="causal", seed=12)


@pytest.mark.parametrize("theta", [10.0, 10000.0, 1000000.0])
def test_task_3_qwen3_theta(theta):
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(3), **norms(30), theta=theta, mask="causal", seed=3)


@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_task_3_qwen3_eps(eps):
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(4), **norms(40), theta=500, eps=eps, mask="causal", seed=4)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 1), (3, 3), (6, 2), (3, 1)])
def test_task_3_qwen3_any_number_of_heads(heads, kv_heads):
    inputs = qwen_inputs(5, heads=heads, kv_heads=kv_heads)
    agrees(qwen_attention, qwen_attention64, *inputs, **norms(50), theta=500, mask="causal", seed=5)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_3_qwen3_without_mask(dtype):
    """Every token sees every token."""
    agrees(qwen_attention, qwen_attention64, *qwen_inputs(6, dtype), **norms(60, dtype), theta=500, seed=6)


def test_task_3_qwen3_finite_mask():
    for shape in broadcasting(4, 6, 5, 5):
        mask = normals(70)(*shape, spread=2.0)
        agrees(qwen_attention, qwen_attention64, *qwen_inputs(7), **norms(71), theta=500, mask=mask, seed=7)


def test_task_3_qwen3_hidden_size_that_heads_divide():
    """E = H * D / 2: D is the one that was given, not E over H."""
    inputs = qwen_inputs(8, hidden=24)
    agrees(qwen_attention, qwen_attention64, *inputs, **norms(80), theta=500, mask="causal", seed=8)


def test_task_3_qwen3_defaults():
    """max_seq_len, theta and rms_norm_eps need not be given."""

    @built
    def by_default(x, heads, kv_heads, *weights, **extra):
        layer = qwen3.Qwen3MultiHeadAttention(x.shape[-1], heads, kv_heads, 8, *weights, **extra)
        return lambda x: layer(x)

    agrees(by_default, qwen_attention64, *qwen_inputs(9), **norms(90), seed=9)


def test_task_3_qwen3_mlx():
    """The same, put together from MLX's own operators."""
    inputs, extra = qwen_inputs(10), norms(100)
    x, heads, kv_heads, wq, wk, wv, wo = inputs

    def split(w, number):
        return mx.unflatten(x @ w.T, -1, (number, -1)).swapaxes(1, 2)

    def turn(y):
        return mx.fast.rope(y, 8, traditional=False, base=500, scale=1.0, offset=0)

    query = turn(mx.fast.rms_norm(split(wq, heads), extra["q_norm"], 1e-6))
    key = turn(mx.fast.rms_norm(split(wk, kv_heads), extra["k_norm"], 1e-6))
    attended = mx.fast.scaled_dot_product_attention(query, key, split(wv, kv_heads), scale=8**-0.5, mask="causal")
    expected = to_float64(attended.swapaxes(1, 2).flatten(2) @ wo.T)
    agrees(qwen_attention, qwen_attention64, *inputs, **extra, theta=500, mask="causal", seed=10, expected=expected)


@pytest.mark.parametrize("model", ["qwen3", "qwen2.5"])
def test_task_3_qwen3_pytorch(pytorch, model):
    """The same, put together from PyTorch's operators."""
    inputs, extra = qwen_inputs(11), norms(110) if model == "qwen3" else biases(111)

    def composed(torch, x, heads, kv_heads, wq, wk, wv, wo, q_norm=None, k_norm=None, bq=None, bk=None, bv=None):
        functional = torch.nn.functional

        def split(w, bias, number):
            return functional.linear(x, w, bias).unflatten(-1, (number, -1)).transpose(1, 2)

        def turn(y):
            length, dims = y.shape[-2:]
            angles = torch.outer(torch.arange(length), 500.0 ** (-torch.arange(0, dims, 2) / dims)).repeat(1, 2)
            left, right = y.chunk(2, dim=-1)
            return y * angles.cos() + torch.cat([-right, left], dim=-1) * angles.sin()

        query, key, value = split(wq, bq, heads), split(wk, bk, kv_heads), split(wv, bv, kv_heads)
        if q_norm is not None:
            query = functional.rms_norm(query, q_norm.shape, q_norm, 1e-6)
            key = functional.rms_norm(key, k_norm.shape, k_norm, 1e-6)
        attended = functional.scaled_dot_product_attention(
            turn(query), turn(key), value, is_causal=True, enable_gqa=True
        )
        return functional.linear(attended.transpose(1, 2).flatten(2), wo)

    expected = pytorch(composed, *inputs, **extra)
    agrees(qwen_attention, qwen_attention64, *inputs, **extra, theta=500, mask="causal", seed=11, expected=expected)


def test_task_3_qwen3_sweep():
    for n in sweep(N=65, L=257, E=131, K=20, G=5, P=64):
        heads, dims = n.K * n.G, 2 * n.P
        for hidden in (n.E, heads * dims)[: 1 + (heads * dims <= 16)]:
            sizes = {"batch": n.N, "length": n.L, "hidden": hidden, "heads": heads, "kv_heads": n.K, "dims": dims}
            x, *inputs = qwen_inputs(n.seed, n.dtype, **sizes)
            extra = n.turn(norms(n.seed, n.dtype, dims), biases(n.seed, n.dtype, heads, n.K, dims))
            shape = *n.turn((), (n.N, 1), (heads,), (n.N, heads)), n.L, n.L
            mask = mask_of(n.turn(*NAMED_MASKS), n.seed, n.turn(*DTYPES), *shape)
            extra |= {"theta": n.turn(500, 1000000.0, 10000), "mask": mask}
            agrees(up_to(n.L), qwen_attention64, x * n.spread, *inputs, **extra, seed=n)


@property_test
@given(length=st.integers(2, 6), changed=st.integers(1, 5), seed=st.integers(0, 99))
def test_task_3_qwen3_causal_keeps_the_past(length, changed, seed):
    """Other tokens from some position on leave every earlier output."""
    changed = min(changed, length - 1)
    x, *weights = qwen_inputs(seed, batch=1, length=length, heads=4, kv_heads=2, dims=6)
    extra = {**norms(seed + 100, dims=6), "theta": 500, "mask": "causal"}
    agrees(qwen_attention, qwen_attention64, x, *weights, **extra, seed=seed)
    noise = mx.where(mx.arange(length)[:, None] < changed, 0.0, 5.0)
    first = qwen_attention(x, *weights, **extra)
    second = qwen_attention(x + noise, *weights, **extra)
    case = f"float32, x 1 x {length} x 7, num_heads 4, num_kv_heads 2, causal, x changed from {changed} on, seed {seed}"
    compare(second[:, :changed], to_float64(first)[:, :changed], mx.float32, 1e-5, case, x.size)


@property_test
@given(longer=st.sampled_from([0.25, 4.0, 32.0]), seed=st.integers(0, 99))
def test_task_3_qwen3_norm_makes_lengths_equal(longer, seed):
    """Behind the norms, queries and keys of any length give the same scores."""
    x, heads, kv_heads, wq, wk, wv, wo = qwen_inputs(seed, batch=1, heads=4, kv_heads=2)
    extra = {**norms(seed + 100), "theta": 500, "eps": 1e-9}
    agrees(qwen_attention, qwen_attention64, x, heads, kv_heads, wq, wk, wv, wo, **extra, seed=seed)
    first = qwen_attention(x, heads, kv_heads, wq, wk, wv, wo, **extra)
    second = qwen_attention(x, heads, kv_heads, wq * longer, wk * longer, wv, wo, **extra)
    case = f"float32, x 1 x 5 x 7, num_heads 4, num_kv_heads 2, against wq and wk times {longer:g}, seed {seed}"
    compare(second, to_float64(first), mx.float32, 1e-5, case, x.size)


def test_task_3_qwen3_refuses_more_tokens_than_max_seq_len():
    """The layer of these tests takes 16."""
    qwen_attention(*qwen_inputs(20, length=16))
    with raises_value_error("float32, x 4 x 17 x 7, max_seq_len 16"):
        mx.eval(qwen_attention(*qwen_inputs(20, length=17)))


def test_task_3_qwen3_refuses_uneven_groups():
    wq, wk, wo = mx.zeros((20, 7)), mx.zeros((8, 7)), mx.zeros((7, 20))
    with raises_value_error("hidden_size 7, num_heads 5, num_kv_heads 2, head_dim 4"):
        qwen3.Qwen3MultiHeadAttention(7, 5, 2, 4, wq, wk, wk, wo)
