"""Task 4.1.2, masked attention, checked against its formula, MLX's operators and PyTorch, in three dtypes."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day1 import masked64
from tests.week4.masks import blind, may_look

from tiny_llm.masks import attention
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import dtype_word
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, MASKS, broadcasting, mask_of, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sweep


def masked(query, key, value, mask=None, bool_mask=None, scale=None):
    return attention.masked_attention(query, key, value, mask if bool_mask is None else bool_mask, scale)


def attention_inputs(seed, dtype=mx.float32, leading=(2, 3), length=4, keys=5, dims=7):
    draw = normals(seed, dtype)
    return draw(*leading, length, dims), draw(*leading, keys, dims), draw(*leading, keys, dims)


@by_dtype
@pytest.mark.parametrize("leading", [(), (3,), (2, 3), (1, 1)], ids=str)
def test_task_2_masked_formula(leading, dtype):
    agrees(masked, masked64, *attention_inputs(1, dtype, leading), seed=1)


@by_dtype
@pytest.mark.parametrize("leading", [(), (3,), (2, 3)], ids=str)
def test_task_2_masked_boolean(leading, dtype):
    inputs = attention_inputs(2, dtype, leading)
    agrees(masked, masked64, *inputs, bool_mask=may_look(20, 4, 5) | (mx.arange(5) == 2), seed=2)


@by_dtype
def test_task_2_masked_finite_bias(dtype):
    """Shows whether the mask is scaled, where it is added, and whether a 0 in it hides."""
    inputs = attention_inputs(3, dtype)
    agrees(masked, masked64, *inputs, mask=normals(30, dtype)(4, 5, spread=2.0), seed=3)
    agrees(masked, masked64, *inputs, mask=mx.array([0.0, 0.0, -1.0, 2.0, 0.0])[None], seed=3)


@by_dtype
def test_task_2_masked_fully_masked_rows_boolean(dtype):
    """A fully masked row gives zeros, and the others are unchanged."""
    agrees(masked, masked64, *attention_inputs(4, dtype), bool_mask=blind(40, 4, 5), seed=4)


@by_dtype
def test_task_2_masked_fully_masked_rows_infinite(dtype):
    """The same with -inf."""
    mask = mx.where(blind(50, 2, 3, 4, 5), 0.0, -mx.inf)
    agrees(masked, masked64, *attention_inputs(5, dtype), mask=mask, seed=5)


def test_task_2_masked_all_rows_fully_masked():
    """Every row is fully masked."""
    inputs = attention_inputs(6, leading=(2,), length=2, keys=3, dims=2)
    agrees(masked, masked64, *inputs, bool_mask=mx.zeros((2, 3)) == 1, seed=6)
    agrees(masked, masked64, *inputs, mask=mx.full((2, 1, 3), -mx.inf), seed=6)


@by_dtype
@pytest.mark.parametrize("bias", [-1e5, -1e9])
def test_task_2_masked_large_numbers_are_not_infinite(bias, dtype):
    """Beside other keys, such a key has no weight. If all are such, float32 still represents the numbers."""
    inputs = attention_inputs(7, dtype)
    agrees(masked, masked64, *inputs, mask=mx.where(blind(70, 4, 5) | (mx.arange(5) == 1), 0.0, bias), seed=7)


@by_dtype
def test_task_2_masked_rows_far_below_zero(dtype):
    """A bias near -100,000 for every key of a row hides none, even in float16, which cannot represent it.

    Nor can it represent a bias near 100,000.
    """
    query, key, value = attention_inputs(8, dtype)
    for bias in (-1e5, 1e5):
        agrees(masked, masked64, query, key, value, mask=normals(80)(4, 5) + bias, seed=8)
    shapes = "query 2 x 3 x 4 x 7, key 2 x 3 x 5 x 7, value 2 x 3 x 5 x 7 of ones"
    further = mx.broadcast_to(mx.where(mx.arange(5) == 0, -1e30, -2e30), (4, 5))
    masks = {
        "-100,000": mx.full((4, 5), -1e5),
        "-99,840 in bfloat16": mx.full((4, 5), -99840, mx.bfloat16),
        "-1e30 for the first key, -2e30 for others": further,
    }
    for words, mask in masks.items():
        output = attention.masked_attention(query, key, mx.ones_like(value), mask)
        if dtype == mask.dtype == mx.bfloat16:  # added in bfloat16, what a query gives is less than one step
            continue
        case = f"{dtype_word(dtype)}, {shapes}, mask 4 x 5 of {words}, seed 8"
        compare(output, np.ones(value[..., :4, :].shape), dtype, 0.02, case, query.size)


def test_task_2_masked_masks_that_broadcast():
    """For all, for each key, for each head, for each sequence, and so on: aligned from the last axis."""
    inputs = attention_inputs(9)
    for shape in broadcasting(2, 3, 4, 5):
        agrees(masked, masked64, *inputs, bool_mask=may_look(90, *shape), seed=9)
        agrees(masked, masked64, *inputs, mask=normals(91)(*shape, spread=2.0), seed=9)


@pytest.mark.parametrize(
    ("heads", "length", "keys"), [(4, 4, 5), (3, 5, 5), (4, 4, 4), (1, 4, 5), (3, 1, 5), (3, 4, 1)]
)
def test_task_2_masked_sizes_that_are_equal(heads, length, keys):
    """H = L, L = S, and so on: then a wrong axis has the right size."""
    inputs = attention_inputs(10, leading=(2, heads), length=length, keys=keys)
    for shape in ((length, keys), (heads, length, keys), (2, 1, length, keys)):
        agrees(masked, masked64, *inputs, bool_mask=blind(100, *shape), seed=10)
        agrees(masked, masked64, *inputs, mask=normals(101)(*shape), seed=10)


@pytest.mark.parametrize(("length", "keys"), [(1, 6), (6, 1), (6, 2), (2, 6)])
def test_task_2_masked_more_queries_than_keys(length, keys):
    """Two sequences, either of which may be longer."""
    inputs = attention_inputs(11, length=length, keys=keys)
    agrees(masked, masked64, *inputs, seed=11)
    agrees(masked, masked64, *inputs, bool_mask=blind(110, length, keys), seed=11)


@pytest.mark.parametrize("scale", [1.0, 0.0, -0.7])
def test_task_2_masked_scale(scale):
    agrees(masked, masked64, *attention_inputs(12), bool_mask=blind(120, 4, 5), scale=scale, seed=12)


def test_task_2_masked_large_scores():
    """Scores of several hundred, also negative: only -inf is -inf."""
    query, key, value = attention_inputs(13)
    agrees(masked, masked64, query * 40, key * 40, value, bool_mask=blind(130, 4, 5), seed=13)
    below = -mx.abs(key)
    agrees(masked, masked64, mx.abs(query) * 400, below * 400, value, bool_mask=blind(131, 4, 5), seed=13)


def test_task_2_masked_values_of_another_width():
    query, key, _ = attention_inputs(14)
    agrees(masked, masked64, query, key, normals(140)(2, 3, 5, 4), bool_mask=blind(141, 4, 5), seed=14)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_task_2_masked_mlx(kind):
    """MLX's operator, if every query sees a key: fully masked rows give the mean of all values, or NaN."""
    query, key, value = attention_inputs(15)
    visible = may_look(150, 2, 1, 4, 5) | (mx.arange(5) == 2)
    mask = visible if kind == "bool" else mx.where(visible, normals(151)(4, 5), -mx.inf)
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask))
    given = {"bool_mask": mask} if kind == "bool" else {"mask": mask}
    agrees(masked, masked64, query, key, value, scale=0.5, **given, seed=15, expected=expected)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_task_2_masked_pytorch(pytorch, kind):
    """PyTorch's operator, including fully masked rows, which also give zeros."""
    query, key, value = attention_inputs(16)
    visible = blind(160, 2, 1, 4, 5)
    mask = visible if kind == "bool" else mx.where(visible, normals(161)(4, 5), -mx.inf)

    def sdpa(torch, q, k, v, m):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m == 1 if kind == "bool" else m)

    expected = pytorch(sdpa, query, key, value, mask)
    given = {"bool_mask": mask} if kind == "bool" else {"mask": mask}
    agrees(masked, masked64, query, key, value, **given, seed=16, expected=expected)


def test_task_2_masked_five_tokens():
    """The head of chapter 1.1 on "That is a blue dog": once causal, once with two padding tokens in front."""
    products = mx.array(
        [
            [30.66, 28.53, 7.76, -7.41, 0.21],
            [43.41, 39.32, 34.77, -1.80, -15.85],
            [38.55, 60.15, 38.22, -2.13, -39.65],
            [25.81, 52.50, 53.56, 32.35, 5.91],
            [15.24, 22.85, 39.03, 40.44, 22.10],
        ]
    )
    weights = [
        [[1, 0, 0, 0, 0], [0.6251, 0.3749, 0, 0, 0], [0.0594, 0.8836, 0.057, 0, 0],
         [0.0158, 0.4429, 0.5057, 0.0357, 0]],
        [[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0.9341, 0.0659, 0]],
    ]  # fmt: skip
    last = [[0.0205, 0.0530, 0.4005, 0.4777, 0.0483], [0, 0, 0.4323, 0.5156, 0.0521]]
    future = mx.arange(5) > mx.arange(5)[:, None]
    visible = mx.stack([~future, ~future & (mx.arange(5) > 1)])
    eye = mx.broadcast_to(mx.eye(5), (2, 5, 5))
    output = attention.masked_attention(mx.broadcast_to(products, (2, 5, 5)), eye, eye, visible, 0.125)
    case = 'float32, "That is a blue dog" twice, the second time with the first two tokens hidden, scale 1/8, causal'
    compare(output, np.concatenate([weights, np.array(last)[:, None]], axis=1), mx.float32, 0.00006, case, 150)


def test_task_2_masked_sweep():
    for n in sweep(N=131, H=20, L=257, S=1100, D=131):
        query, key, value = attention_inputs(n.seed, n.dtype, (n.N, n.H), n.L, n.S, n.D)
        query, value = query * n.spread, value * n.spread
        for lead in n.each((), (n.H,), (n.N, 1), (n.N, n.H)):
            shape = (*lead, n.L, n.S) if n.N * n.H * n.L * n.S < 100000 else (n.L, n.S)
            scale = n.turn(None, -0.7, 2.5, 0.02)
            agrees(masked, masked64, query, key, value, bool_mask=blind(n.seed, *shape), scale=scale, seed=n)
            mask = mask_of(n.turn(*MASKS), n.seed, n.turn(*DTYPES), *shape)
            agrees(masked, masked64, query, key, value, mask=mask, scale=scale, seed=n)


@property_test
@given(length=st.integers(1, 4), keys=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_2_masked_hidden_keys_may_be_removed(length, keys, seed):
    """Keys that are hidden from every query can be removed."""
    query, key, value = attention_inputs(seed, leading=(), length=length, keys=keys + 3)
    visible = mx.broadcast_to(mx.arange(keys + 3) < keys, (length, keys + 3))
    agrees(masked, masked64, query, key, value, bool_mask=visible, seed=seed)
    whole = attention.masked_attention(query, key, value, visible)
    cut = attention.masked_attention(query, key[:keys], value[:keys])
    case = f"float32, query {length} x 7, key {keys + 3} x 7, the last 3 hidden, against {keys} keys alone, seed {seed}"
    compare(whole, to_float64(cut), mx.float32, 1e-5, case, query.size + key.size)


@property_test
@given(length=st.integers(1, 4), keys=st.integers(1, 6), seed=st.integers(0, 99))
def test_task_2_masked_weights_sum_to_one_or_zero(length, keys, seed):
    """Values of ones give ones for visible rows, and zeros for fully masked ones."""
    query, key, _ = attention_inputs(seed, leading=(), length=length, keys=keys)
    visible = may_look(seed + 100, length, keys)
    output = attention.masked_attention(query, key, mx.ones((keys, 2)), visible)
    expected = np.repeat(to_float64(mx.any(visible, axis=-1, keepdims=True)), 2, axis=-1)
    case = f"float32, query {length} x 7, key {keys} x 7, value of ones, bool_mask {length} x {keys}, seed {seed}"
    compare(output, expected, mx.float32, 1e-5, case, query.size + key.size)


@pytest.mark.parametrize(
    "shape", [(4, 4), (5, 5), (5, 4), (2, 4, 5), (3, 3, 4, 5), (2, 2, 4, 5), (1, 2, 3, 4, 5)], ids=str
)
def test_task_2_masked_refuses_other_shapes(shape):
    inputs, words = attention_inputs(17), " x ".join(map(str, shape))
    for mask in (may_look(170, *shape), normals(170)(*shape)):
        case = f"float32, query 2 x 3 x 4 x 7, key 2 x 3 x 5 x 7, value 2 x 3 x 5 x 7, mask {words}"
        with raises_value_error(case):
            mx.eval(attention.masked_attention(*inputs, mask))


@pytest.mark.parametrize(
    ("leading", "shape"),
    [
        ((), (1, 4, 5)),
        ((), (1, 1, 4, 5)),
        ((3,), (1, 3, 4, 5)),
        ((1, 3), (2, 1, 4, 5)),
        ((2, 1), (3, 4, 5)),
    ],
)
def test_task_2_masked_refuses_larger_masks(leading, shape):
    """More axes than the scores have, or a larger batch, would silently enlarge the result."""
    query, key, value = attention_inputs(18, leading=leading)
    words = [" x ".join(map(str, x.shape)) for x in (query, key, value)]
    for mask in (may_look(180, *shape), normals(180)(*shape)):
        case = "float32, query {}, key {}, value {}".format(*words) + f", mask {' x '.join(map(str, shape))}"
        with raises_value_error(case):
            mx.eval(attention.masked_attention(query, key, value, mask))


def test_task_2_masked_refuses_more_queries_or_keys_in_the_mask():
    for length, keys, shape in ((1, 5, (4, 5)), (4, 1, (4, 5))):
        query, key, value = attention_inputs(19, leading=(), length=length, keys=keys)
        with raises_value_error(f"float32, query {length} x 7, key {keys} x 7, value {keys} x 7, mask 4 x 5"):
            mx.eval(attention.masked_attention(query, key, value, may_look(190, *shape)))


@pytest.mark.parametrize("dtype", [mx.int32, mx.uint8], ids=str)
def test_task_2_masked_refuses_integers(dtype):
    word = dtype_word(dtype)
    case = f"float32, query 2 x 3 x 4 x 7, key 2 x 3 x 5 x 7, value 2 x 3 x 5 x 7, mask 4 x 5 of {word}"
    with raises_value_error(case):
        mx.eval(attention.masked_attention(*attention_inputs(21), mx.ones((4, 5), dtype)))
