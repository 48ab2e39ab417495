"""Week 4, day 1: masks of every kind, attention that takes them, attention from one text to another.

Each task is held to its formula in float64, to MLX's own operators and to PyTorch, in three dtypes; then to properties.
Sizes that a wrong program confuses are equal here on purpose: as many texts as heads, as heads as queries, and so on.
"""

import math

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import attention64
from tests.week4.formulas_day1 import cross64, mask64, masked64

from tiny_llm.masks import attention, cross_attention, masks
from tiny_llm_course.testkit.again import built
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import CASE_NOTE, dtype_word
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, MASKS, broadcasting, forbidding, mask_of, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact, rounding, to_float64
from tiny_llm_course.testkit.sizes import sweep

# B, H, L and S: all different, then every two of them that a mask may be read wrong with, then texts and heads of one.
DIFFERENT = (2, 3, 4, 5)
CONFUSED = [
    (3, 3, 4, 5),
    (4, 3, 4, 5),
    (2, 4, 4, 5),
    (2, 3, 5, 5),
    (1, 3, 4, 5),
    (2, 1, 4, 5),
    (2, 3, 1, 5),
    (3, 3, 3, 3),
]
SIZES = pytest.mark.parametrize("sizes", [DIFFERENT, *CONFUSED], ids=str)


def may_look(seed, *shape):
    """A boolean mask, which hides about half of everything and may hide whole rows."""
    return normals(seed)(*shape) < 0


# Task 1, one mask of many


def mask_agrees(B, H, L, S, dtype=mx.float32, *, seed, **given):
    """What a learner's mask adds. It is rounded once, at the end, where a narrow dtype may not hold a number at all."""
    expected = None
    if dtype != mx.float32:
        values = {name: to_float64(v) if isinstance(v, mx.array) else v for name, v in given.items()}
        expected = rounding(dtype)(mask64(B, H, L, S, **values))

    def attention_mask(B, H, L, S, mask=None, key_mask=None, bool_mask=None, bool_key_mask=None, causal=False):
        mask = mask if bool_mask is None else bool_mask
        key_mask = key_mask if bool_key_mask is None else bool_key_mask
        return masks.attention_mask(B, H, L, S, dtype, mask=mask, key_mask=key_mask, causal=causal)

    agrees(attention_mask, mask64, B, H, L, S, seed=seed, dtype=dtype, expected=expected, **given)


def masks_of_all_axes(B, H, L, S):
    """Every shape that a mask may have: two axes, three or four, of which each may be 1."""
    return [shape for shape in broadcasting(B, H, L, S) if len(shape) > 1 and (len(shape) != 3)] + [
        (texts, *shape) for texts in {1, B} for shape in broadcasting(L, S) if len(shape) == 2
    ]


@by_dtype
@SIZES
def test_task_1_mask_two_axes(sizes, dtype):
    """L x S, also where as many texts as queries could make it B x S, or as many heads as queries L x 1 x S."""
    _, _, L, S = sizes
    mask_agrees(*sizes, dtype, bool_mask=may_look(1, L, S), seed=1)
    mask_agrees(*sizes, dtype, mask=normals(2)(L, S), seed=2)


@SIZES
def test_task_1_mask_three_axes(sizes):
    """B x L x S, also where as many heads as texts could make it H x L x S."""
    B, _, L, S = sizes
    mask_agrees(*sizes, bool_mask=may_look(3, B, L, S), seed=3)
    mask_agrees(*sizes, mask=normals(4)(B, L, S), seed=4)


@SIZES
def test_task_1_mask_four_axes(sizes):
    B, H, L, S = sizes
    mask_agrees(*sizes, bool_mask=may_look(5, B, H, L, S), seed=5)
    mask_agrees(*sizes, mask=normals(6)(1, H, L, S), seed=6)


@by_dtype
@SIZES
def test_task_1_mask_keys(sizes, dtype):
    """B x S, also where as many texts as queries could make it L x S."""
    B, _, _, S = sizes
    mask_agrees(*sizes, dtype, bool_key_mask=may_look(7, B, S), seed=7)
    mask_agrees(*sizes, dtype, key_mask=normals(8)(B, S), seed=8)


def test_task_1_mask_axes_of_one():
    """Any axis may be 1, and stays so."""
    for shape in masks_of_all_axes(*DIFFERENT):
        mask_agrees(*DIFFERENT, bool_mask=may_look(9, *shape), seed=9)


@SIZES
def test_task_1_mask_causal(sizes):
    mask_agrees(*sizes, causal=True, seed=10)


def test_task_1_mask_nothing():
    mask_agrees(*DIFFERENT, seed=11)


@SIZES
def test_task_1_mask_all_together(sizes):
    """A key is hidden if any of the three hides it, and numbers add up."""
    B, _, L, S = sizes
    mask_agrees(*sizes, bool_mask=may_look(12, L, S), bool_key_mask=may_look(13, B, S), causal=True, seed=12)
    mask_agrees(*sizes, mask=normals(14)(B, L, S), bool_key_mask=may_look(15, B, S), seed=14)
    mask_agrees(*sizes, bool_mask=may_look(16, B, 1, L, S), key_mask=normals(17)(B, S), causal=True, seed=16)


@by_dtype
def test_task_1_mask_float_masks_that_hide(dtype):
    """0 hides nothing, -inf hides, and what is between is added."""
    _, _, L, S = DIFFERENT
    mask_agrees(*DIFFERENT, mask=forbidding(18, mx.zeros((L, S))).astype(dtype), seed=18)
    mask_agrees(*DIFFERENT, dtype, mask=mx.array([0.0, -0.5, 2.0, -mx.inf, 1.0])[None], seed=19)


def test_task_1_mask_float16_from_float32():
    """float16 holds neither -1e9 nor -79,000, but 40,000 - 79,000, if the sum is taken before it is float16."""
    mask_agrees(1, 1, 1, 2, mx.float16, mask=mx.array([[-1e9, 1.5]]), seed=20)
    up, down = mx.array([[40000.0, 1.0]]), mx.array([[-79000.0, -1.0]])
    mask_agrees(1, 1, 1, 2, mx.float16, mask=up, key_mask=down, seed=21)


def test_task_1_mask_five_tokens():
    """`That is a blue dog` beside `a blue dog`, which begins behind two places of padding, as chapter 4.1 shows it."""
    padded = mx.array([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]) == 1
    case = "float32, B 2, H 1, L 5, S 5, the second text behind 2 places of padding, causal"
    try:
        mask = masks.attention_mask(2, 1, 5, 5, mx.float32, key_mask=padded, causal=True)
    except Exception as error:
        error.add_note(f"{CASE_NOTE}{case}")
        raise
    sees = np.tril(np.ones((2, 1, 5, 5)))
    sees[1, 0, :, :2] = 0
    compare(mask, np.where(sees == 1, 0.0, -math.inf), mx.float32, 0.0, case, 50, indirect=False)


def test_task_1_mask_mlx():
    """In MLX's own operator, it does what a boolean mask does that was made as large as the scores."""
    B, H, L, S = 3, 3, 4, 5
    draw = normals(22)
    query, key, value = draw(B, H, L, 8), draw(B, H, S, 8), draw(B, H, S, 8)
    mask = mx.concatenate([mx.ones((B, L, 1)) == 1, may_look(23, B, L, S - 1)], axis=-1)
    mask_agrees(B, H, L, S, bool_mask=mask, seed=23)
    made = masks.attention_mask(B, H, L, S, mx.float32, mask=mask)
    whole = mx.broadcast_to(mask[:, None], (B, H, L, S))
    by_made = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=made)
    by_whole = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=whole)
    case = "float32, B 3, H 3, L 4, S 5, bool_mask 3 x 4 x 5, the mask in MLX's own attention, seed 23"
    compare(by_made, to_float64(by_whole), mx.float32, 1e-5, case, 60)


def test_task_1_mask_pytorch(pytorch):
    """PyTorch's module, given a mask for each text and padding, does what the formula does with the learner's mask."""
    B, H, L, S, D = 3, 3, 4, 5, 2
    draw = normals(24)
    query, key = draw(B, L, H * D), draw(B, S, H * D)
    mask, key_mask = draw(B, L, S, spread=2.0), mx.arange(S) < mx.array([[5], [3], [1]])
    mask_agrees(B, H, L, S, mask=mask, bool_key_mask=key_mask, seed=24)

    def module(torch, query, key, mask, key_mask):
        layer = torch.nn.MultiheadAttention(H * D, H, bias=False, batch_first=True)
        with torch.no_grad():
            layer.in_proj_weight.copy_(torch.eye(H * D).repeat(3, 1))
            layer.out_proj.weight.copy_(torch.eye(H * D))
            hidden = torch.zeros(key_mask.shape).masked_fill(key_mask == 0, -math.inf)
            options = {"attn_mask": mask.repeat_interleave(H, dim=0), "key_padding_mask": hidden}
            return layer(query, key, key, need_weights=False, **options)[0]

    expected = pytorch(module, query, key, mask, key_mask)
    made = masks.attention_mask(B, H, L, S, mx.float32, mask=mask, key_mask=key_mask)
    q, k = (to_float64(mx.unflatten(x, -1, (H, D)).swapaxes(1, 2)) for x in (query, key))
    attended = np.swapaxes(attention64(q, k, k, mask=to_float64(made)), 1, 2).reshape(B, L, H * D)
    case = "float32, B 3, H 3, L 4, S 5, mask 3 x 4 x 5, bool_key_mask 3 x 5, against PyTorch's module, seed 24"
    compare(mx.array(attended.astype(np.float32)), expected, mx.float32, 1e-5, case, 60)


def test_task_1_mask_sweep():
    for n in sweep(B=131, H=64, L=257, X=1100):
        B, H, L, S = n.B, n.H, n.L, n.L + n.X - 1
        for shape in n.each((L, S), (B, L, S), (B, 1, L, S), (1, H, L, S), (B, H, 1, S)):
            if math.prod(shape) * B > 300000:
                shape = L, S
            key_mask, causal = n.turn(None, may_look(n.seed + 50, B, S)), n.turn(False, True, True)
            mask = {"bool_mask": may_look(n.seed, *shape)}
            if n.turn(True, False):
                mask = {"mask": mask_of(n.turn("bias", "forbidding", "huge"), n.seed, n.turn(*DTYPES), *shape)}
            mask_agrees(B, H, L, S, n.dtype, **mask, bool_key_mask=key_mask, causal=causal, seed=n)


def test_task_1_mask_is_no_larger_than_it_must_be():
    """A padding mask of 8 x 4,096 for 16 heads and 512 queries: spread out, it would hold a gigabyte."""
    key_mask = may_look(25, 8, 4096)
    mx.eval(key_mask)
    mask_agrees(8, 16, 512, 4096, bool_key_mask=key_mask, seed=25)
    case = "float32, B 8, H 16, L 512, S 4096, bool_key_mask 8 x 4096, seed 25"
    run = lambda: masks.attention_mask(8, 16, 512, 4096, mx.float32, key_mask=key_mask)  # noqa: E731
    holds_less(run, 8 * 4096 * 64, "64 bytes for each number of the mask", case=case)


@property_test
@given(B=st.integers(1, 3), H=st.integers(1, 3), L=st.integers(1, 4), extra=st.integers(0, 3), seed=st.integers(0, 99))
def test_task_1_mask_boolean_is_additive(B, H, L, extra, seed):
    """A boolean mask and the numbers that it stands for give the same."""
    S = L + extra
    visible = may_look(seed, B, L, S)
    mask_agrees(B, H, L, S, bool_mask=visible, causal=True, seed=seed)
    mask_agrees(B, H, L, S, mask=mx.where(visible, 0.0, -mx.inf), causal=True, seed=seed)


@pytest.mark.parametrize(
    "shape",
    [(5,), (2, 5), (4, 4), (5, 4), (3, 4, 5), (2, 5, 4), (2, 4, 4), (3, 2, 4, 5), (2, 3, 4, 4), (1, 2, 3, 4, 5)],
    ids=str,
)
def test_task_1_mask_refuses_other_shapes(shape):
    """Of B 2, H 3, L 4, S 5: also B x S, which is no L x S, and H x L x S, which is no B x L x S."""
    words = " x ".join(map(str, shape))
    for mask in (may_look(26, *shape), normals(26)(*shape)):
        with raises_value_error(f"B 2, H 3, L 4, S 5, mask {words}", "mask", str(shape)):
            mx.eval(masks.attention_mask(*DIFFERENT, mx.float32, mask=mask))


def test_task_1_mask_refuses_a_mask_for_each_head_of_one_text():
    """With B 1, H x L x S would broadcast; one for each head is 1 x H x L x S."""
    with raises_value_error("B 1, H 3, L 4, S 5, bool_mask 3 x 4 x 5", "mask", "(3, 4, 5)"):
        mx.eval(masks.attention_mask(1, 3, 4, 5, mx.float32, mask=may_look(27, 3, 4, 5)))


def test_task_1_mask_refuses_axes_too_large_for_one():
    """A text, a head, a query or a key of one do not grow."""
    for sizes, shape in (
        ((1, 3, 4, 5), (2, 1, 4, 5)), ((2, 1, 4, 5), (1, 3, 4, 5)), ((2, 3, 1, 5), (2, 5)), ((2, 3, 4, 1), (4, 5)),
    ):  # fmt: skip
        words = ", ".join(f"{letter} {size}" for letter, size in zip("BHLS", sizes, strict=True))
        with raises_value_error(f"{words}, bool_mask {' x '.join(map(str, shape))}", "mask", str(shape)):
            mx.eval(masks.attention_mask(*sizes, mx.float32, mask=may_look(28, *shape)))


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 4), (1, 5), (2, 1), (2, 1, 5), (2, 1, 1, 5)], ids=str)
def test_task_1_mask_refuses_other_key_masks(shape):
    """One row for two texts, or one column for five keys, would broadcast."""
    words = " x ".join(map(str, shape))
    with raises_value_error(f"B 2, H 3, L 4, S 5, bool_key_mask {words}", "key_mask", str(shape)):
        mx.eval(masks.attention_mask(*DIFFERENT, mx.float32, key_mask=may_look(29, *shape)))


@pytest.mark.parametrize("dtype", [mx.int32, mx.uint8, mx.int64], ids=str)
def test_task_1_mask_refuses_whole_numbers(dtype):
    """Ones and zeros that are no booleans say nothing: is 1 a number to add, or a key that may be looked at?"""
    word = dtype_word(dtype)
    with raises_value_error(f"B 2, H 3, L 4, S 5, mask 4 x 5 of {word}", "mask", word):
        mx.eval(masks.attention_mask(*DIFFERENT, mx.float32, mask=mx.ones((4, 5), dtype)))
    with raises_value_error(f"B 2, H 3, L 4, S 5, key_mask 2 x 5 of {word}", "key_mask", word):
        mx.eval(masks.attention_mask(*DIFFERENT, mx.float32, key_mask=mx.ones((2, 5), dtype)))


def test_task_1_mask_refuses_a_causal_one_for_more_queries_than_keys():
    with raises_value_error("B 2, H 3, L 5, S 4, causal"):
        mx.eval(masks.attention_mask(2, 3, 5, 4, mx.float32, causal=True))


# Task 2, masked attention


def masked(query, key, value, mask=None, bool_mask=None, scale=None):
    return attention.masked_attention(query, key, value, mask if bool_mask is None else bool_mask, scale)


def attention_inputs(seed, dtype=mx.float32, leading=(2, 3), length=4, keys=5, dims=7):
    draw = normals(seed, dtype)
    return draw(*leading, length, dims), draw(*leading, keys, dims), draw(*leading, keys, dims)


def blind(seed, *shape):
    """A boolean mask that hides everything from every third query, and about half from the others."""
    visible = may_look(seed, *shape) | (mx.arange(shape[-1]) == 0)
    return visible & (mx.arange(shape[-2])[:, None] % 3 != 1)


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
    """It shows whether the mask is scaled, where it is added, and whether a 0 of it hides."""
    inputs = attention_inputs(3, dtype)
    agrees(masked, masked64, *inputs, mask=normals(30, dtype)(4, 5, spread=2.0), seed=3)
    agrees(masked, masked64, *inputs, mask=mx.array([0.0, 0.0, -1.0, 2.0, 0.0])[None], seed=3)


@by_dtype
def test_task_2_masked_blind_rows_boolean(dtype):
    """A query from which everything is hidden gets zeros, and the others are as ever."""
    agrees(masked, masked64, *attention_inputs(4, dtype), bool_mask=blind(40, 4, 5), seed=4)


@by_dtype
def test_task_2_masked_blind_rows_infinite(dtype):
    """The same by -inf."""
    mask = mx.where(blind(50, 2, 3, 4, 5), 0.0, -mx.inf)
    agrees(masked, masked64, *attention_inputs(5, dtype), mask=mask, seed=5)


def test_task_2_masked_all_blind():
    """Nobody sees anything."""
    inputs = attention_inputs(6)
    agrees(masked, masked64, *inputs, bool_mask=mx.zeros((4, 5)) == 1, seed=6)
    agrees(masked, masked64, *inputs, mask=mx.full((2, 1, 1, 5), -mx.inf), seed=6)


@by_dtype
@pytest.mark.parametrize("bias", [-1e5, -1e9])
def test_task_2_masked_large_numbers_are_not_infinite(bias, dtype):
    """Beside other keys, such a key counts for nothing. Where all are such, float32 still holds the numbers."""
    inputs = attention_inputs(7, dtype)
    agrees(masked, masked64, *inputs, mask=mx.where(blind(70, 4, 5) | (mx.arange(5) == 1), 0.0, bias), seed=7)


@by_dtype
def test_task_2_masked_rows_far_below_zero(dtype):
    """A bias near -100,000 for every key of a row hides none, in float16 neither, which cannot hold it."""
    query, key, value = attention_inputs(8, dtype)
    agrees(masked, masked64, query, key, value, mask=normals(80)(4, 5) - 1e5, seed=8)
    output = attention.masked_attention(query, key, mx.ones_like(value), mx.full((4, 5), -1e5))
    shapes = "query 2 x 3 x 4 x 7, key 2 x 3 x 5 x 7, value 2 x 3 x 5 x 7 of ones"
    case = f"{dtype_word(dtype)}, {shapes}, mask 4 x 5 of -100,000, seed 8"
    compare(output, np.ones(value[..., :4, :].shape), dtype, 0.02, case, query.size)


def test_task_2_masked_masks_that_broadcast():
    """For all, for each key, for each head, for each row of the batch, and so on: aligned from the last axis on."""
    inputs = attention_inputs(9)
    for shape in broadcasting(2, 3, 4, 5):
        agrees(masked, masked64, *inputs, bool_mask=may_look(90, *shape), seed=9)
        agrees(masked, masked64, *inputs, mask=normals(91)(*shape, spread=2.0), seed=9)


@pytest.mark.parametrize(
    ("heads", "length", "keys"), [(4, 4, 5), (3, 5, 5), (4, 4, 4), (1, 4, 5), (3, 1, 5), (3, 4, 1)]
)
def test_task_2_masked_sizes_that_are_equal(heads, length, keys):
    """As many heads as queries, as queries as keys, and so on: then a wrong axis has the right size."""
    inputs = attention_inputs(10, leading=(2, heads), length=length, keys=keys)
    for shape in ((length, keys), (heads, length, keys), (2, 1, length, keys)):
        agrees(masked, masked64, *inputs, bool_mask=blind(100, *shape), seed=10)
        agrees(masked, masked64, *inputs, mask=normals(101)(*shape), seed=10)


@pytest.mark.parametrize(("length", "keys"), [(1, 6), (6, 1), (6, 2), (2, 6)])
def test_task_2_masked_more_queries_than_keys(length, keys):
    """Two texts, of which either may be the longer one."""
    inputs = attention_inputs(11, length=length, keys=keys)
    agrees(masked, masked64, *inputs, seed=11)
    agrees(masked, masked64, *inputs, bool_mask=blind(110, length, keys), seed=11)


@pytest.mark.parametrize("scale", [1.0, 0.0, -0.7])
def test_task_2_masked_scale(scale):
    agrees(masked, masked64, *attention_inputs(12), bool_mask=blind(120, 4, 5), scale=scale, seed=12)


def test_task_2_masked_large_scores():
    """Scores of some hundreds, below zero as well: only -inf is -inf."""
    query, key, value = attention_inputs(13)
    agrees(masked, masked64, query * 40, key * 40, value, bool_mask=blind(130, 4, 5), seed=13)
    below = -mx.abs(key)
    agrees(masked, masked64, mx.abs(query) * 400, below * 400, value, bool_mask=blind(131, 4, 5), seed=13)


def test_task_2_masked_values_of_another_width():
    query, key, _ = attention_inputs(14)
    agrees(masked, masked64, query, key, normals(140)(2, 3, 5, 4), bool_mask=blind(141, 4, 5), seed=14)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_task_2_masked_mlx(kind):
    """MLX's operator, where every query sees a key: on blind rows it gives the mean of all values, or NaN."""
    query, key, value = attention_inputs(15)
    visible = may_look(150, 2, 1, 4, 5) | (mx.arange(5) == 2)
    mask = visible if kind == "bool" else mx.where(visible, normals(151)(4, 5), -mx.inf)
    expected = to_float64(mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask))
    given = {"bool_mask": mask} if kind == "bool" else {"mask": mask}
    agrees(masked, masked64, query, key, value, scale=0.5, **given, seed=15, expected=expected)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_task_2_masked_pytorch(pytorch, kind):
    """PyTorch's operator, blind rows included: zeros there, too."""
    query, key, value = attention_inputs(16)
    visible = blind(160, 2, 1, 4, 5)
    mask = visible if kind == "bool" else mx.where(visible, normals(161)(4, 5), -mx.inf)

    def sdpa(torch, q, k, v, m):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m == 1 if kind == "bool" else m)

    expected = pytorch(sdpa, query, key, value, mask)
    given = {"bool_mask": mask} if kind == "bool" else {"mask": mask}
    agrees(masked, masked64, query, key, value, **given, seed=16, expected=expected)


def test_task_2_masked_five_tokens():
    """The head of chapter 1.1 on "That is a blue dog": once causal, once with two places of padding in front."""
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
def test_task_2_masked_hidden_keys_may_be_cut_away(length, keys, seed):
    """Keys that nobody sees might as well not be there."""
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
    """Values of ones come out as ones where anything is seen, and as zeros elsewhere."""
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
def test_task_2_masked_refuses_what_would_make_it_larger(leading, shape):
    """More axes than the scores have, or more texts: the result would grow without a word."""
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
def test_task_2_masked_refuses_whole_numbers(dtype):
    word = dtype_word(dtype)
    case = f"float32, query 2 x 3 x 4 x 7, key 2 x 3 x 5 x 7, value 2 x 3 x 5 x 7, mask 4 x 5 of {word}"
    with raises_value_error(case):
        mx.eval(attention.masked_attention(*attention_inputs(21), mx.ones((4, 5), dtype)))


# Task 3, cross-attention


@built
def cross(
    x, memory, num_heads, wq, wk, wv, wo, bq=None, bk=None, bv=None, bo=None,
    mask=None, key_mask=None, bool_mask=None, bool_key_mask=None,
):  # fmt: skip
    layer = cross_attention.MultiHeadCrossAttention(num_heads, wq, wk, wv, wo, bq, bk, bv, bo)

    def call(x, memory, mask, key_mask, bool_mask, bool_key_mask):
        masks = {
            "mask": mask if bool_mask is None else bool_mask,
            "key_mask": key_mask if bool_key_mask is None else bool_key_mask,
        }
        return layer(x, *layer.read(memory), **{name: each for name, each in masks.items() if each is not None})

    return call


def cross_inputs(seed, dtype=mx.float32, batch=2, length=4, keys=5, hidden=11, other=9, heads=3, dims=7):
    """B, L, S, E, M, H and D all differ, and E is not H * D."""
    draw, width = normals(seed, dtype), heads * dims
    x, memory = draw(batch, length, hidden), draw(batch, keys, other)
    wq = draw(width, hidden, spread=hidden**-0.5)
    wk, wv = (draw(width, other, spread=other**-0.5) for _ in "kv")
    return x, memory, heads, wq, wk, wv, draw(hidden, width, spread=width**-0.5)


def biases(seed, dtype=mx.float32, hidden=11, heads=3, dims=7):
    draw = normals(seed, dtype)
    return {**{name: draw(heads * dims) for name in ("bq", "bk", "bv")}, "bo": draw(hidden)}


@by_dtype
@pytest.mark.parametrize("batch", [1, 2])
def test_task_3_cross_formula(batch, dtype):
    agrees(cross, cross64, *cross_inputs(1, dtype, batch), seed=1)


@by_dtype
def test_task_3_cross_biases(dtype):
    agrees(cross, cross64, *cross_inputs(2, dtype), **biases(20, dtype), seed=2)


@pytest.mark.parametrize("name", ["bq", "bv", "bo"])
def test_task_3_cross_biases_apart(name):
    """Each may be None while others are not. (That of the keys alone changes nothing: it shifts a row's scores.)"""
    agrees(cross, cross64, *cross_inputs(3), **{name: biases(30)[name]}, seed=3)
    agrees(cross, cross64, *cross_inputs(3), **{**biases(30), name: None}, seed=3)


@pytest.mark.parametrize("heads", [1, 2, 6])
def test_task_3_cross_any_number_of_heads(heads):
    agrees(cross, cross64, *cross_inputs(4, heads=heads, dims=3), seed=4)


@by_dtype
def test_task_3_cross_keys_and_values(dtype):
    """What `read` gives, of the same dtype and split by heads."""
    _, memory, heads, wq, wk, wv, wo = cross_inputs(5, dtype)
    some = biases(50, dtype)
    for which, (w, bias) in enumerate([(wk, some["bk"]), (wv, some["bv"])]):

        def read(memory, wk, bias, which=which, w=w):
            layer = cross_attention.MultiHeadCrossAttention(
                heads, wq, wk if which == 0 else w, wk if which else w, wo,
                **{"bk" if which == 0 else "bv": bias},
            )  # fmt: skip
            return layer.read(memory)[which]

        def projected64(memory, wk, bias, *, r=exact):
            y = r(r(memory @ wk.T) + bias)
            return np.swapaxes(y.reshape(*y.shape[:2], heads, -1), 1, 2)

        agrees(read, projected64, memory, w, bias, seed=5)


@by_dtype
def test_task_3_cross_padded_memory(dtype):
    """One memory is whole, one ends early."""
    key_mask = mx.arange(5) < mx.array([[5], [2]])
    agrees(cross, cross64, *cross_inputs(6, dtype), **biases(60, dtype), bool_key_mask=key_mask, seed=6)


@by_dtype
def test_task_3_cross_nothing_to_read(dtype):
    """A memory of padding alone: bo comes out, and the text beside it is as ever."""
    key_mask = mx.arange(5) < mx.array([[5], [0]])
    agrees(cross, cross64, *cross_inputs(7, dtype), **biases(70, dtype), bool_key_mask=key_mask, seed=7)


@pytest.mark.parametrize("sizes", [DIFFERENT, *CONFUSED], ids=str)
def test_task_3_cross_masks(sizes):
    """Of two, three and four axes, boolean and with numbers, with padding and without."""
    B, H, L, S = sizes
    inputs = cross_inputs(8, batch=B, heads=H, length=L, keys=S)
    for shape in ((L, S), (B, L, S), (B, H, L, S), (1, H, 1, S)):
        agrees(cross, cross64, *inputs, bool_mask=may_look(80, *shape), seed=8)
        agrees(cross, cross64, *inputs, mask=normals(81)(*shape), bool_key_mask=may_look(82, B, S), seed=8)
    agrees(cross, cross64, *inputs, key_mask=normals(83)(B, S), seed=8)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_3_cross_mask_of_large_numbers(dtype):
    """Float masks with numbers that x's dtype may not hold."""
    inputs, mask = cross_inputs(9, dtype), normals(90)(4, 5) - 1e5
    agrees(cross, cross64, *inputs, mask=mask, seed=9)
    expected = cross64(*(to_float64(v) if isinstance(v, mx.array) else v for v in inputs), mask=to_float64(mask))
    case = f"{dtype_word(dtype)}, x 2 x 4 x 11, memory 2 x 5 x 9, num_heads 3, mask 4 x 5 near -100,000, seed 9"
    compare(cross(*inputs, mask=mask), expected, dtype, 0.06, case, 168)


@pytest.mark.parametrize(("length", "keys"), [(1, 6), (6, 1), (6, 2), (5, 5)])
def test_task_3_cross_longer_and_shorter(length, keys):
    """Nothing of the memory is later than the query, whichever is longer."""
    agrees(cross, cross64, *cross_inputs(10, length=length, keys=keys), seed=10)


def test_task_3_cross_mlx():
    x, memory, heads, wq, wk, wv, wo = cross_inputs(11)
    layer = nn.MultiHeadAttention(
        21, heads, query_input_dims=11, key_input_dims=9, value_input_dims=9, value_dims=21, value_output_dims=11
    )
    weights = {"query_proj": wq, "key_proj": wk, "value_proj": wv, "out_proj": wo}
    layer.update({name: {"weight": w} for name, w in weights.items()})
    mask = normals(110)(4, 5)
    expected = to_float64(layer(x, memory, memory, mask))
    agrees(cross, cross64, x, memory, heads, wq, wk, wv, wo, mask=mask, seed=11, expected=expected)


@pytest.mark.parametrize("kind", ["padding", "bool", "float", "float by text and head"])
def test_task_3_cross_pytorch(pytorch, kind):
    """PyTorch's module, which needs E = H * D, and in whose boolean masks True hides."""
    inputs, some = cross_inputs(12, hidden=21), biases(120, hidden=21)
    mask = key_mask = None
    if kind == "padding":
        key_mask = mx.arange(5) < mx.array([[5], [2]])
    elif kind == "bool":
        mask = blind(121, 4, 5)
    else:
        mask = normals(122)(*((4, 5) if kind == "float" else (2, 3, 4, 5)))

    def module(torch, x, memory, heads, wq, wk, wv, wo, mask, key_mask, bq, bk, bv, bo):
        layer = torch.nn.MultiheadAttention(21, heads, batch_first=True, kdim=9, vdim=9)
        with torch.no_grad():
            for to, w in (("q", wq), ("k", wk), ("v", wv)):
                getattr(layer, f"{to}_proj_weight").copy_(w)
            layer.in_proj_bias.copy_(torch.cat([bq, bk, bv]))
            layer.out_proj.weight.copy_(wo)
            layer.out_proj.bias.copy_(bo)
            hides = None if mask is None else mask == 0 if kind == "bool" else mask.reshape(-1, 4, 5)
            options = {"attn_mask": hides[0] if hides is not None and len(hides) == 1 else hides}
            if key_mask is not None:
                options["key_padding_mask"] = key_mask == 0
            return layer(x, memory, memory, need_weights=False, **options)[0]

    expected = pytorch(module, *inputs, mask, key_mask, **some)
    given = {"bool_mask": mask} if kind == "bool" else {"mask": mask}
    agrees(cross, cross64, *inputs, **some, **given, bool_key_mask=key_mask, seed=12, expected=expected)


def test_task_3_cross_of_itself_is_self_attention():
    """A text that is its own memory: PyTorch and week 1 call that self-attention."""
    x, _, heads, wq, wk, wv, wo = cross_inputs(13, other=11, keys=4)
    agrees(cross, cross64, x, x, heads, wq, wk, wv, wo, seed=13)


def test_task_3_cross_sweep():
    for n in sweep(N=65, L=131, S=1100, E=131, M=131, H=20, D=65):
        x, memory, *weights = cross_inputs(n.seed, n.dtype, n.N, n.L, n.S, n.E, n.M, n.H, n.D)
        some = n.turn(biases(n.seed, n.dtype, n.E, n.H, n.D), {})
        for shape in n.each((n.L, n.S), (n.N, n.L, n.S), (1, n.H, n.L, n.S), (n.N, 1, 1, n.S)):
            shape = shape if math.prod(shape) < 100000 else (n.L, n.S)
            mask = mask_of(n.turn(*MASKS), n.seed, n.turn(*DTYPES), *shape)
            key_mask = n.turn(may_look(n.seed, n.N, n.S), None)
            given = {**some, "mask": mask, "bool_key_mask": key_mask}
            agrees(cross, cross64, x * n.spread, memory, *weights, **given, seed=n)


@property_test
@given(length=st.integers(2, 5), seed=st.integers(0, 99))
def test_task_3_cross_tokens_ask_one_by_one(length, seed):
    """A memory that has been read once serves tokens that come one at a time as well as all at once."""
    x, memory, *weights = cross_inputs(seed, length=length)
    agrees(cross, cross64, x, memory, *weights, seed=seed)
    layer = cross_attention.MultiHeadCrossAttention(*weights)
    key, value = layer.read(memory)
    together = layer(x, key, value)
    apart = mx.concatenate([layer(x[:, i : i + 1], key, value) for i in range(length)], axis=1)
    case = f"float32, x 2 x {length} x 11, memory 2 x 5 x 9, token by token, against all at once, seed {seed}"
    compare(apart, to_float64(together), mx.float32, 1e-5, case, x.size)


@pytest.mark.parametrize(
    ("name", "heads", "wrong_shape"),
    [
        ("wq", 4, (21, 11)),
        ("wk", 3, (20, 9)),
        ("wv", 3, (21, 8)),
        ("wv", 3, (7, 9)),
        ("wo", 3, (21, 11)),
        ("wo", 3, (1, 21)),
        ("bq", 3, (11,)),
        ("bk", 3, (1,)),
        ("bv", 3, (7,)),
        ("bo", 3, (21,)),
        ("bo", 3, (1,)),
    ],
)
def test_task_3_cross_refuses_other_shapes(name, heads, wrong_shape):
    shapes = {
        "wq": (21, 11),
        "wk": (21, 9),
        "wv": (21, 9),
        "wo": (11, 21),
        "bq": (21,),
        "bk": (21,),
        "bv": (21,),
        "bo": (11,),
    }
    weights = {each: mx.zeros(wrong_shape if each == name else shape) for each, shape in shapes.items()}
    words = ", ".join(f"{each} {' x '.join(map(str, w.shape))}" for each, w in weights.items())
    with raises_value_error(f"num_heads {heads}, {words}", name, str(wrong_shape[0])):
        cross_attention.MultiHeadCrossAttention(heads, **weights)


@pytest.mark.parametrize("shape", [(2, 5), (3, 4, 5), (2, 5, 4)], ids=str)
def test_task_3_cross_refuses_other_masks(shape):
    """Padding in the place of the mask, a mask for each head in the place of one for each text."""
    x, memory, *weights = cross_inputs(14)
    layer = cross_attention.MultiHeadCrossAttention(*weights)
    words = " x ".join(map(str, shape))
    with raises_value_error(f"float32, x 2 x 4 x 11, memory 2 x 5 x 9, num_heads 3, mask {words}", str(shape)):
        mx.eval(layer(x, *layer.read(memory), mask=may_look(140, *shape)))
