"""Task 4.1.1, one mask of many, checked against its formula, MLX's operators and PyTorch, in three dtypes."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import attention64
from tests.week4.formulas_day1 import mask64
from tests.week4.masks import DIFFERENT, SIZES, may_look

from tiny_llm.masks import masks
from tiny_llm_course.testkit.agreement import agrees, compare
from tiny_llm_course.testkit.cases import CASE_NOTE, dtype_word
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, broadcasting, forbidding, mask_of, normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.memory import holds_less
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import rounding, to_float64
from tiny_llm_course.testkit.sizes import sweep


def mask_agrees(B, H, L, S, dtype=mx.float32, *, seed, **given):
    """Return the learner's mask. It is rounded once, at the end, and a narrow dtype may not hold a number at all."""
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
    """L x S, even if B = L could make it B x S, or H = L could make it L x 1 x S."""
    _, _, L, S = sizes
    mask_agrees(*sizes, dtype, bool_mask=may_look(1, L, S), seed=1)
    mask_agrees(*sizes, dtype, mask=normals(2)(L, S), seed=2)


@SIZES
def test_task_1_mask_three_axes(sizes):
    """B x L x S, even if H = B could make it H x L x S."""
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
    """B x S, even if B = L could make it L x S."""
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
    """0 hides nothing, -inf hides, and anything between is added."""
    _, _, L, S = DIFFERENT
    mask_agrees(*DIFFERENT, mask=forbidding(18, mx.zeros((L, S))).astype(dtype), seed=18)
    mask_agrees(*DIFFERENT, dtype, mask=mx.array([0.0, -0.5, 2.0, -mx.inf, 1.0])[None], seed=19)


def test_task_1_mask_float16_from_float32():
    """float16 holds neither -1e9 nor -79,000, but it holds 40,000 - 79,000, if the sum precedes the conversion."""
    mask_agrees(1, 1, 1, 2, mx.float16, mask=mx.array([[-1e9, 1.5]]), seed=20)
    up, down = mx.array([[40000.0, 1.0]]), mx.array([[-79000.0, -1.0]])
    mask_agrees(1, 1, 1, 2, mx.float16, mask=up, key_mask=down, seed=21)


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_task_1_mask_adds_narrow_masks_in_float32(dtype):
    """Two masks of a narrow dtype are neither rounded before the sum nor in it; 80,000 is beyond float16."""
    mask_agrees(*DIFFERENT, mask=normals(30, dtype)(4, 5), key_mask=normals(31, dtype)(2, 5), seed=30)
    large = mx.array([[40000.0, -40000.0]]).astype(dtype)
    mask_agrees(1, 1, 1, 2, mask=large, key_mask=large, seed=31)


def test_task_1_mask_five_tokens():
    """`That is a blue dog` and `a blue dog`, the latter after two padding tokens, as in chapter 4.1."""
    padded = mx.array([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]]) == 1
    case = "float32, B 2, H 1, L 5, S 5, the second sequence after 2 padding tokens, causal"
    try:
        mask = masks.attention_mask(2, 1, 5, 5, mx.float32, key_mask=padded, causal=True)
    except Exception as error:
        error.add_note(f"{CASE_NOTE}{case}")
        raise
    sees = np.tril(np.ones((2, 1, 5, 5)))
    sees[1, 0, :, :2] = 0
    compare(mask, np.where(sees == 1, 0.0, -math.inf), mx.float32, 0.0, case, 50, indirect=False)


def test_task_1_mask_mlx():
    """In MLX's own operator, it has the effect of a boolean mask that was broadcast to the scores."""
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
    """PyTorch's module, given masks and padding, must match the formula with the learner's mask."""
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


def test_task_1_mask_is_not_broadcast():
    """A padding mask of 8 x 4,096 for 16 heads and 512 queries: broadcast, it would take a gigabyte."""
    key_mask = may_look(25, 8, 4096)
    mx.eval(key_mask)
    mask_agrees(8, 16, 512, 4096, bool_key_mask=key_mask, seed=25)
    case = "float32, B 8, H 16, L 512, S 4096, bool_key_mask 8 x 4096, seed 25"
    run = lambda: masks.attention_mask(8, 16, 512, 4096, mx.float32, key_mask=key_mask)  # noqa: E731
    holds_less(run, 8 * 4096 * 64, "64 bytes for each number of the mask", case=case)


@property_test
@given(B=st.integers(1, 3), H=st.integers(1, 3), L=st.integers(1, 4), extra=st.integers(0, 3), seed=st.integers(0, 99))
def test_task_1_mask_boolean_is_additive(B, H, L, extra, seed):
    """A boolean mask and its additive equivalent give the same result."""
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
    """With B 2, H 3, L 4, S 5: also B x S, which is not L x S, and H x L x S, which is not B x L x S."""
    words = " x ".join(map(str, shape))
    for mask in (may_look(26, *shape), normals(26)(*shape)):
        with raises_value_error(f"B 2, H 3, L 4, S 5, mask {words}", "mask", str(shape)):
            mx.eval(masks.attention_mask(*DIFFERENT, mx.float32, mask=mask))


def test_task_1_mask_refuses_a_mask_for_each_head_of_one_text():
    """With B 1, H x L x S would broadcast; one per head must be 1 x H x L x S."""
    with raises_value_error("B 1, H 3, L 4, S 5, bool_mask 3 x 4 x 5", "mask", "(3, 4, 5)"):
        mx.eval(masks.attention_mask(1, 3, 4, 5, mx.float32, mask=may_look(27, 3, 4, 5)))


def test_task_1_mask_refuses_axes_too_large_for_one():
    """Axes of size one in B, H, L or S do not grow."""
    for sizes, shape in (
        ((1, 3, 4, 5), (2, 1, 4, 5)), ((2, 1, 4, 5), (1, 3, 4, 5)), ((2, 3, 1, 5), (2, 5)), ((2, 3, 4, 1), (4, 5)),
    ):  # fmt: skip
        words = ", ".join(f"{letter} {size}" for letter, size in zip("BHLS", sizes, strict=True))
        with raises_value_error(f"{words}, bool_mask {' x '.join(map(str, shape))}", "mask", str(shape)):
            mx.eval(masks.attention_mask(*sizes, mx.float32, mask=may_look(28, *shape)))


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 4), (1, 5), (2, 1), (2, 1, 5), (2, 1, 1, 5)], ids=str)
def test_task_1_mask_refuses_other_key_masks(shape):
    """One row for two sequences, or one column for five keys, would broadcast."""
    words = " x ".join(map(str, shape))
    with raises_value_error(f"B 2, H 3, L 4, S 5, bool_key_mask {words}", "key_mask", str(shape)):
        mx.eval(masks.attention_mask(*DIFFERENT, mx.float32, key_mask=may_look(29, *shape)))


@pytest.mark.parametrize("dtype", [mx.int32, mx.uint8, mx.int64], ids=str)
def test_task_1_mask_refuses_integers(dtype):
    """Ones and zeros that are not booleans are ambiguous: is 1 a number to add, or an allowed key?"""
    word = dtype_word(dtype)
    with raises_value_error(f"B 2, H 3, L 4, S 5, mask 4 x 5 of {word}", "mask", word):
        mx.eval(masks.attention_mask(*DIFFERENT, mx.float32, mask=mx.ones((4, 5), dtype)))
    with raises_value_error(f"B 2, H 3, L 4, S 5, key_mask 2 x 5 of {word}", "key_mask", word):
        mx.eval(masks.attention_mask(*DIFFERENT, mx.float32, key_mask=mx.ones((2, 5), dtype)))


def test_task_1_mask_refuses_a_causal_one_for_more_queries_than_keys():
    with raises_value_error("B 2, H 3, L 5, S 4, causal"):
        mx.eval(masks.attention_mask(2, 3, 5, 4, mx.float32, causal=True))
