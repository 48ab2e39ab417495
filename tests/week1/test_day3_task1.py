"""Week 1, day 3, task 1: causal mask."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import attention64, causal64

from tiny_llm import attention
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import CASE_NOTE, dtype_word
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import narrow, sizes


def mask_agrees(length, keys, dtype, expected=None):
    """Check a mask exactly: every entry is 0 or -inf."""
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
    """In MLX's operator, the mask has the effect of "causal"."""
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
    """PyTorch's attention with its lower-right bias equals the formula with the mask."""
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
    """Queries that arrive later see the same keys as if all had arrived at once."""
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
