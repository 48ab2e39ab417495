"""Week 1, day 1: softmax, scaled dot-product attention, linear, multi-head attention.

Each task is compared with its float64 formula, MLX's operator and PyTorch, in three dtypes; then come properties.
"""

import math

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import attention64, linear64, multi_head64, softmax64

from tiny_llm import attention, basics
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, MASKS, broadcasting, causal, forbidding, mask_of, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import EPSILON, to_float64
from tiny_llm_course.testkit.sizes import sweep

LEADING = [(), (2,), (2, 3), (2, 3, 2)]


# Task 1, softmax


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(5,), (2, 3), (2, 3, 4), (2, 3, 4, 5)], ids=str)
def test_task_1_softmax_formula(shape, dtype):
    x = normals(1, dtype)(*shape, spread=2.0)
    for axis in range(-len(shape), len(shape)):
        agrees(basics.softmax, softmax64, x, axis, seed=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_softmax_large_scores(dtype):
    """Scores of a thousand, and rows that are far apart: each row needs its own maximum."""
    x = normals(2, dtype)(3, 4, spread=4.0) + mx.array([[1000], [0], [-1000]]).astype(dtype)
    agrees(basics.softmax, softmax64, x, -1, seed=2)
    agrees(basics.softmax, softmax64, x.T, 0, seed=2)
    if dtype != mx.float16:  # a subset of int32
        agrees(basics.softmax, softmax64, normals(2, dtype)(3, 4, spread=1e12), -1, seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_softmax_of_long_rows_sums_to_one(dtype):
    """Allow the rounding of a logarithm of the sum; a sum that overflows its dtype is far off."""
    weights = basics.softmax(normals(6, dtype)(2, 4200, spread=0.1), -1)
    case = f"sums of the probabilities of {dtype_word(dtype)}, x 2 x 4200, axis -1, seed 6"
    allowed = EPSILON[dtype] * math.log(4200)
    compare(mx.sum(weights.astype(mx.float32), axis=-1), np.ones(2), mx.float32, allowed, case, weights.size)


def test_task_1_softmax_forbidden_scores():
    """exp(-inf) is zero: a score of -inf has probability 0."""
    x = mx.where(mx.array([[1, 0, 1, 1], [1, 1, 1, 0]]) == 1, normals(3)(2, 4), -math.inf)
    agrees(basics.softmax, softmax64, x, -1, seed=3)


def test_task_1_softmax_mlx():
    x = normals(4)(3, 4, 5, spread=3.0)
    for axis in (0, 1, 2):
        agrees(basics.softmax, softmax64, x, axis, seed=4, expected=to_float64(mx.softmax(x, axis=axis, precise=True)))


def test_task_1_softmax_pytorch(pytorch):
    x = normals(5)(4, 5, spread=3.0)
    expected = pytorch(lambda torch, x: torch.softmax(x, dim=0), x)
    agrees(basics.softmax, softmax64, x, 0, seed=5, expected=expected)


def test_task_1_softmax_sweep():
    for n in sweep(A=4200, B=1100, C=4200):
        if n.dtype != mx.float32 and (max(n.sizes.values()) > 20 or n.spread > 1):
            continue  # exp(x - logsumexp(x)) is also right, and its logarithm has few digits there
        x = normals(n.seed, n.dtype)(n.A, n.B, n.C, spread=n.spread)
        for axis in (-1, 0, 1) if n.seed % 2 else (2, -2, -3):
            agrees(basics.softmax, softmax64, x, axis, seed=n)
        axis = n.turn(-1, 0)
        agrees(basics.softmax, softmax64, forbidding(n.seed, x[:, 0], axis) + n.shift, axis, seed=n)
    for dims in range(1, 8):
        x = normals(dims)(*range(dims, 0, -1))
        for axis in (-1, 0, dims // 2):
            agrees(basics.softmax, softmax64, x, axis, seed=dims)


@property_test
@given(rows=st.integers(1, 4), columns=st.integers(1, 40), shift=st.integers(-60, 60), seed=st.integers(0, 99))
def test_task_1_softmax_ignores_a_shift(rows, columns, shift, seed):
    """Adding a constant to every score of a row does not change its probabilities."""
    x = normals(seed)(rows, columns)
    case = f"float32, x {rows} x {columns}, against the same x plus {shift}, seed {seed}"
    compare(basics.softmax(x + shift, -1), softmax64(to_float64(x), -1), mx.float32, 1e-4, case, x.size)


# Task 1, attention


def attention_inputs(seed, dtype, leading=(), length=3, keys=5, dims=4, values=4):
    draw = normals(seed, dtype)
    return draw(*leading, length, dims), draw(*leading, keys, dims), draw(*leading, keys, values)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("leading", LEADING, ids=str)
def test_task_1_attention_formula(leading, dtype):
    agrees(attention.scaled_dot_product_attention_simple, attention64, *attention_inputs(1, dtype, leading), seed=1)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 0.0, 0.3])
def test_task_1_attention_scale(scale, dtype):
    inputs = attention_inputs(2, dtype)
    agrees(attention.scaled_dot_product_attention_simple, attention64, *inputs, scale=scale, seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_attention_finite_mask(dtype):
    """A finite bias shows whether the mask is scaled, and where it is added."""
    inputs = attention_inputs(3, dtype, (2,))
    mask = normals(30, dtype)(3, 5, spread=2.0)
    agrees(attention.scaled_dot_product_attention_simple, attention64, *inputs, mask=mask, seed=3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_1_attention_causal_mask(dtype):
    inputs = attention_inputs(4, dtype, (2, 3))
    mask = causal(3, 5, dtype)
    agrees(attention.scaled_dot_product_attention_simple, attention64, *inputs, mask=mask, seed=4)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_1_attention_float32_mask(dtype):
    """A mask of another float dtype leaves the output in query's dtype."""
    inputs = attention_inputs(5, dtype)
    agrees(attention.scaled_dot_product_attention_simple, attention64, *inputs, mask=causal(3, 5, mx.float32), seed=5)


def test_task_1_attention_float16_mask():
    """A mask of a narrower dtype does not reduce the precision of the scores."""
    inputs = attention_inputs(9, mx.float32)
    agrees(attention.scaled_dot_product_attention_simple, attention64, *inputs, mask=causal(3, 5, mx.float16), seed=9)


def test_task_1_attention_large_scores():
    """Scores of several hundred need the stable softmax."""
    query, key, value = attention_inputs(10, mx.float32)
    agrees(attention.scaled_dot_product_attention_simple, attention64, query * 40, key * 40, value, seed=10)


def test_task_1_attention_masks_that_broadcast():
    """Masks for all queries, per key, per head, per row of a batch, and so on."""
    inputs = attention_inputs(6, mx.float32, (2, 4))
    for shape in broadcasting(2, 4, 3, 5):
        mask = normals(60)(*shape, spread=2.0)
        agrees(attention.scaled_dot_product_attention_simple, attention64, *inputs, mask=mask, seed=6)


def test_task_1_attention_mlx():
    query, key, value = attention_inputs(7, mx.float32, (2, 3))
    mask = normals(70)(3, 5)
    expected = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask)
    agrees(
        attention.scaled_dot_product_attention_simple, attention64, query, key, value, scale=0.5, mask=mask, seed=7,
        expected=to_float64(expected),
    )  # fmt: skip


@pytest.mark.parametrize("masked", [False, True])
def test_task_1_attention_pytorch(pytorch, masked):
    query, key, value = attention_inputs(8, mx.float32, (2, 3))
    mask = causal(3, 5, mx.float32) if masked else None

    def sdpa(torch, q, k, v, m):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m)

    expected = pytorch(sdpa, query, key, value, mask)
    program = attention.scaled_dot_product_attention_simple
    agrees(program, attention64, query, key, value, mask=mask, seed=8, expected=expected)


def test_task_1_attention_sweep():
    program = attention.scaled_dot_product_attention_simple
    for n in sweep(N=257, L=1100, S=4200, D=257):
        draw = normals(n.seed, n.dtype)
        query, key = draw(n.N, n.L, n.D, spread=n.spread), draw(n.N, n.S, n.D)
        value = draw(n.N, n.S, n.D, spread=n.spread)
        agrees(program, attention64, query, key, value, seed=n)
        if n.L * n.S > 5000:
            continue
        shape = *n.turn((), (n.N,), (1,)), *n.turn((n.L,), (1,)), n.S
        scale, mask = n.turn(-0.7, None, 2.5, 0.02), mask_of(n.turn(*MASKS[::-1]), n.seed, n.turn(*DTYPES), *shape)
        agrees(program, attention64, query, key, value, scale, mask, seed=n)


def test_task_1_attention_five_tokens():
    """A trained head on "That is a blue dog", as chapter 1.1 shows it: its dot products over 8, a causal mask."""
    products = [
        [30.66, 28.53, 7.76, -7.41, 0.21],
        [43.41, 39.32, 34.77, -1.80, -15.85],
        [38.55, 60.15, 38.22, -2.13, -39.65],
        [25.81, 52.50, 53.56, 32.35, 5.91],
        [15.24, 22.85, 39.03, 40.44, 22.10],
    ]
    weights = [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.6251, 0.3749, 0.0, 0.0, 0.0],
        [0.0594, 0.8836, 0.0570, 0.0, 0.0],
        [0.0158, 0.4429, 0.5057, 0.0357, 0.0],
        [0.0205, 0.0530, 0.4005, 0.4777, 0.0483],
    ]
    # Keys and values are the identity matrix: the products are the query, and the output is the attention weights.
    eye, query = mx.eye(5), mx.array(products)
    output = attention.scaled_dot_product_attention_simple(query, eye, eye, 0.125, causal(5, 5, mx.float32))
    case = 'float32, the five tokens "That is a blue dog", scale 1/8, causal mask'
    compare(output, np.array(weights), mx.float32, 0.00006, case, 75)


@property_test
@given(length=st.integers(1, 4), keys=st.integers(1, 9), dims=st.integers(1, 8), seed=st.integers(0, 99))
def test_task_1_attention_of_ones_is_one(length, keys, dims, seed):
    """The attention weights of a query sum to one, so values of one give an output of one."""
    query, key, _ = attention_inputs(seed, mx.float32, (), length, keys, dims)
    output = attention.scaled_dot_product_attention_simple(query, key, mx.ones((keys, dims)))
    case = f"float32, query {length} x {dims}, key {keys} x {dims}, value {keys} x {dims} of ones, seed {seed}"
    compare(output, np.ones((length, dims)), mx.float32, 1e-5, case, query.size + key.size)


@property_test
@given(length=st.integers(2, 6), changed=st.integers(1, 5), seed=st.integers(0, 99))
def test_task_1_attention_causal_keeps_the_past(length, changed, seed):
    """With a causal mask, changing the future does not change any earlier output."""
    changed = min(changed, length - 1)
    query, key, value = attention_inputs(seed, mx.float32, (), length, length)
    noise = mx.where(mx.arange(length)[:, None] < changed, 0.0, 5.0)
    mask = causal(length, length, mx.float32)
    before = attention.scaled_dot_product_attention_simple(query, key, value, mask=mask)
    after = attention.scaled_dot_product_attention_simple(query, key + noise, value - noise, mask=mask)
    case = f"float32, query, key, value {length} x 4, causal, keys and values changed from {changed} on, seed {seed}"
    compare(after[:changed], to_float64(before[:changed]), mx.float32, 1e-5, case, 3 * query.size)


# Task 2, linear


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("leading", LEADING, ids=str)
def test_task_2_linear_formula(leading, bias, dtype):
    draw = normals(1, dtype)
    x, w = draw(*leading, 4), draw(5, 4, spread=0.5)
    agrees(basics.linear, linear64, x, w, draw(5) if bias else None, seed=1)


def test_task_2_linear_square_weights():
    """O = I: the one case in which a weight that is not transposed goes unnoticed."""
    draw = normals(2)
    agrees(basics.linear, linear64, draw(2, 3), draw(3, 3), seed=2)


@pytest.mark.parametrize("bias", [False, True])
def test_task_2_linear_mlx(bias):
    draw = normals(3)
    x, w, b = draw(2, 3, 4), draw(5, 4), draw(5) if bias else None
    layer = nn.Linear(4, 5, bias=bias)
    layer.update({"weight": w, "bias": b} if bias else {"weight": w})
    agrees(basics.linear, linear64, x, w, b, seed=3, expected=to_float64(layer(x)))


def test_task_2_linear_pytorch(pytorch):
    draw = normals(4)
    x, w, bias = draw(2, 3, 4), draw(5, 4), draw(5)
    expected = pytorch(lambda torch, x, w, bias: torch.nn.functional.linear(x, w, bias), x, w, bias)
    agrees(basics.linear, linear64, x, w, bias, seed=4, expected=expected)


def test_task_2_linear_sweep():
    for n in sweep(N=1100, I=4200, O=4200):
        draw = normals(n.seed, n.dtype)
        x, w, bias = draw(n.N, n.I, spread=n.spread), draw(n.O, n.I), draw(n.O, spread=n.spread)
        agrees(basics.linear, linear64, x, w, seed=n)
        x = n.turn(x, x[0], x[:, None], x[None])
        agrees(basics.linear, linear64, x, w, bias, seed=n)


@pytest.mark.parametrize("leading", [(), (2,)], ids=str)
@pytest.mark.parametrize(("inputs", "width"), [(4, 3), (3, 4), (1, 3), (3, 1)])
def test_task_2_linear_refuses_other_widths(inputs, width, leading):
    x = " x ".join(map(str, (*leading, inputs)))
    for bias in (normals(5)(5), None):
        with raises_value_error(f"float32, x {x}, w 5 x {width}, {'no bias' if bias is None else 'bias 5'}"):
            mx.eval(basics.linear(normals(5)(*leading, inputs), normals(5)(5, width), bias))


# Task 2, multi-head attention


@built
def multi_head(query, key, value, num_heads, wq, wk, wv, wo, mask=None):
    layer = attention.SimpleMultiHeadAttention(query.shape[-1], num_heads, wq, wk, wv, wo)
    return lambda query, key, value, mask: layer(query, key, value, *([] if mask is None else [mask]))


def multi_head_inputs(seed, dtype=mx.float32, batch=2, length=4, keys=5, hidden=11, heads=3, dims=2):
    """N, L, S, E, H, D all different, E is not H * D and E // H not D: a mixed-up axis cannot hide."""
    draw, width = normals(seed, dtype), heads * dims
    tokens = draw(batch, length, hidden), draw(batch, keys, hidden), draw(batch, keys, hidden)
    projections = [draw(width, hidden, spread=hidden**-0.5) for _ in "qkv"]
    return (*tokens, heads, *projections, draw(hidden, width, spread=width**-0.5))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("batch", [1, 2])
def test_task_2_multi_head_formula(batch, dtype):
    agrees(multi_head, multi_head64, *multi_head_inputs(1, dtype, batch), seed=1)


@pytest.mark.parametrize("heads", [1, 2, 6])
def test_task_2_multi_head_any_number_of_heads(heads):
    agrees(multi_head, multi_head64, *multi_head_inputs(2, heads=heads, dims=3), seed=2)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_task_2_multi_head_causal_mask(dtype):
    agrees(multi_head, multi_head64, *multi_head_inputs(3, dtype), mask=causal(4, 5, dtype), seed=3)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_2_multi_head_float32_mask(dtype):
    agrees(multi_head, multi_head64, *multi_head_inputs(7, dtype), mask=causal(4, 5, mx.float32), seed=7)


def test_task_2_multi_head_finite_mask():
    """Masks for all queries, per key, per head, per row of the batch, per row and head, and so on."""
    for shape in broadcasting(2, 3, 4, 5):
        agrees(multi_head, multi_head64, *multi_head_inputs(4), mask=normals(40)(*shape, spread=2.0), seed=4)


def test_task_2_multi_head_sweep():
    for n in sweep(N=131, L=257, S=1100, E=131, H=20, D=131):
        query, key, value, *weights = multi_head_inputs(n.seed, n.dtype, n.N, n.L, n.S, n.E, n.H, n.D)
        for lead in n.each((), (n.N, 1), (n.H,), (n.N, n.H)):
            mask = mask_of(n.turn(*MASKS), n.seed, n.turn(*DTYPES), *lead, n.L, n.S)
            agrees(multi_head, multi_head64, query * n.spread, key, value, *weights, mask=mask, seed=n)


@pytest.mark.parametrize(("heads", "dims"), [(1, 1), (1, 5), (2, 2), (3, 2), (4, 4), (7, 3)])
def test_task_2_multi_head_hidden_size_that_heads_divide(heads, dims):
    """E = H * D: here E // H is D too."""
    inputs = multi_head_inputs(8, hidden=heads * dims, heads=heads, dims=dims)
    agrees(multi_head, multi_head64, *inputs, seed=8)


def test_task_2_multi_head_hidden_size_that_heads_do_not_divide():
    """E // H is D, but H * D is not E."""
    agrees(multi_head, multi_head64, *multi_head_inputs(9, keys=4, hidden=7), seed=9)


def test_task_2_multi_head_mlx():
    query, key, value, heads, wq, wk, wv, wo = multi_head_inputs(5)
    layer = nn.MultiHeadAttention(
        6, heads, query_input_dims=11, key_input_dims=11, value_input_dims=11, value_dims=6, value_output_dims=11
    )
    weights = {"query_proj": wq, "key_proj": wk, "value_proj": wv, "out_proj": wo}
    layer.update({name: {"weight": w} for name, w in weights.items()})
    mask = normals(50)(4, 5)
    expected = to_float64(layer(query, key, value, mask))
    agrees(
        multi_head, multi_head64, query, key, value, heads, wq, wk, wv, wo, mask=mask, seed=5, expected=expected
    )  # fmt: skip


def test_task_2_multi_head_pytorch(pytorch):
    """PyTorch's module needs E = H * D, so this is the one test with such sizes."""
    inputs = multi_head_inputs(6, hidden=6)

    def module(torch, query, key, value, heads, wq, wk, wv, wo):
        layer = torch.nn.MultiheadAttention(6, heads, bias=False, batch_first=True)
        with torch.no_grad():
            layer.in_proj_weight.copy_(torch.cat([wq, wk, wv]))
            layer.out_proj.weight.copy_(wo)
            return layer(query, key, value, need_weights=False)[0]

    agrees(multi_head, multi_head64, *inputs, seed=6, expected=pytorch(module, *inputs))


@pytest.mark.parametrize(
    ("name", "heads", "wrong_shape"),
    [
        ("wq", 4, (6, 11)),
        ("wq", 3, (6, 12)),
        ("wk", 3, (5, 11)),
        ("wk", 3, (6, 9)),
        ("wk", 3, (6, 11, 2)),
        ("wv", 3, (6, 9)),
        ("wv", 3, (6, 1)),
        ("wv", 3, (3, 11)),
        ("wo", 3, (6, 11)),
        ("wo", 3, (1, 6)),
        ("wo", 3, (11, 5)),
    ],
)
def test_task_2_multi_head_refuses_other_shapes(name, heads, wrong_shape):
    """The message names the weight, and states wq's rows or both shapes, the weight's and the one needed."""
    weights = {n: mx.zeros((6, 11)) for n in ("wq", "wk", "wv")} | {"wo": mx.zeros((11, 6))}
    needed = weights[name].shape
    weights[name] = mx.zeros(wrong_shape)
    shapes = ", ".join(f"{n} {' x '.join(map(str, w.shape))}" for n, w in weights.items())
    sizes = (6,) if wrong_shape == needed else (*wrong_shape, *needed)
    with raises_value_error(f"hidden_size 11, num_heads {heads}, {shapes}", name, *map(str, sizes)):
        attention.SimpleMultiHeadAttention(11, heads, **weights)
