"""Task 4.3.1, the mask of a window, checked against its formula, MLX's operator, PyTorch and transformers."""

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week4.formulas_day3 import window64
from tests.week4.windows import by_window

from tiny_llm.local_attention import masks
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import CASE_NOTE, dtype_word, noted
from tiny_llm_course.testkit.errors import raises_value_error
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.marks import by_dtype
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import narrow, sizes


def mask_agrees(length, keys, window, sinks=0, dtype=mx.float32, expected=None):
    """Check that every entry is exactly 0 or -inf."""
    case = f"{dtype_word(dtype)}, L {length}, S {keys}, window {window}, sinks {sinks}"
    try:
        mask = masks.window_mask(length, keys, window, sinks, dtype)
    except Exception as error:
        error.add_note(f"{CASE_NOTE}{case}")
        raise
    by_formula = window64(length, keys, window, sinks) if expected is None else expected
    compare(mask, by_formula, dtype, 0.0, case, length * keys, indirect=False)
    return mask


@by_dtype
@by_window
def test_task_1_window_formula(window, sinks, dtype):
    for length, keys in [(1, 1), (5, 5), (1, 7), (2, 7), (4, 9)]:
        mask_agrees(length, keys, window, sinks, dtype)


def test_task_1_window_five_tokens():
    """`That is a blue dog` with a window of 2 and a sink, as in chapter 4.3."""
    hidden = -np.inf
    rows = [
        [0, hidden, hidden, hidden, hidden],
        [0, 0, hidden, hidden, hidden],
        [0, 0, 0, hidden, hidden],
        [0, hidden, 0, 0, hidden],
        [0, hidden, hidden, 0, 0],
    ]
    mask_agrees(5, 5, 2, 1, expected=np.array(rows))


def test_task_1_window_defaults():
    """Defaults: no sinks and float32."""
    case = "L 2, S 5, window 3, defaults"
    with noted(case):
        mask = masks.window_mask(2, 5, 3)
    compare(mask, window64(2, 5, 3), mx.float32, 0.0, case, 10)


@pytest.mark.parametrize("window", [5, 6, 100, None])
def test_task_1_window_mlx(window):
    """A window larger than the sequence is the same as "causal" in MLX's operator."""
    mask, draw = mask_agrees(3, 5, window, 1), normals(1)
    query, key, value = draw(2, 4, 3, 8), draw(2, 4, 5, 8), draw(2, 4, 5, 8)
    masked = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask=mask)
    named = mx.fast.scaled_dot_product_attention(query, key, value, scale=0.5, mask="causal")
    case = f"float32, L 3, S 5, window {window}, sinks 1, the mask in MLX's own attention, seed 1"
    compare(masked, to_float64(named), mx.float32, 1e-5, case, 15)


@pytest.mark.parametrize(("length", "keys", "window"), [(5, 5, 1), (5, 5, 3), (2, 9, 4), (7, 7, 9)])
def test_task_1_window_transformers(pytorch, length, keys, window):
    """transformers' own sliding-window function, called for every query and key."""

    def overlay(torch, length, keys, window):
        from transformers.masking_utils import sliding_window_causal_mask_function

        queries, positions = torch.arange(keys - length, keys)[:, None], torch.arange(keys)[None]
        seen = sliding_window_causal_mask_function(window)(0, 0, queries, positions)
        return torch.where(seen, 0.0, -torch.inf)

    mask_agrees(length, keys, window, expected=pytorch(overlay, length, keys, window))


@pytest.mark.parametrize(("length", "keys", "window", "sinks"), [(6, 6, 2, 1), (3, 8, 2, 3), (1, 8, 3, 2)])
def test_task_1_window_pytorch(pytorch, length, keys, window, sinks):
    """PyTorch: the difference of two triangles is a band; sink columns keep the lower triangle."""

    def triangles(torch, length, keys, window, sinks):
        causal = torch.ones(length, keys).tril(keys - length)
        band = causal.triu(keys - length - window + 1)
        band[:, :sinks] = causal[:, :sinks]
        return torch.where(band == 1, 0.0, -torch.inf)

    mask_agrees(length, keys, window, sinks, expected=pytorch(triangles, length, keys, window, sinks))


@property_test
@given(keys=st.integers(1, 12), length=st.integers(1, 12), window=st.integers(1, 6), sinks=st.integers(0, 4))
def test_task_1_window_is_the_last_rows_of_the_whole(keys, length, window, sinks):
    length = min(length, keys)
    whole = mask_agrees(keys, keys, window, sinks)
    case = f"float32, L {length}, S {keys}, window {window}, sinks {sinks}, against the last {length} rows of L {keys}"
    mask = masks.window_mask(length, keys, window, sinks, mx.float32)
    compare(mask, to_float64(whole)[keys - length :], mx.float32, 0.0, case, length * keys)


@property_test
@given(keys=st.integers(1, 14), length=st.integers(1, 14), window=st.integers(1, 5), sinks=st.integers(0, 4))
def test_task_1_window_without_invisible_keys(keys, length, window, sinks):
    """Keys that no query sees can be left out: the result is the mask of the shorter sequence."""
    length = min(length, keys)
    whole = to_float64(mask_agrees(length, keys, window, sinks))
    seen = ~np.isinf(whole).all(axis=0)
    count = max(int(seen.sum()), min(sinks, keys) + min(length, keys - min(sinks, keys)))
    case = f"float32, L {length}, window {window}, sinks {sinks}: S {keys} without its unseen keys, against S {count}"
    if count == seen.sum():
        compare(masks.window_mask(length, count, window, sinks), whole[:, seen], mx.float32, 0.0, case, length * count)


def test_task_1_window_sweep():
    largest = {"L": 257, "X": 1100, "W": 1100, "K": 70}
    for n in (*sizes(**largest), *narrow(**largest)):
        mask_agrees(n.L, n.L + n.X - 1, n.turn(n.W, n.W, None), n.K - 1, n.dtype)


@pytest.mark.parametrize(("length", "keys"), [(2, 1), (5, 3)])
def test_task_1_window_refuses_more_queries_than_keys(length, keys):
    with raises_value_error(f"float32, L {length}, S {keys}, window 2", str(length), str(keys)):
        mx.eval(masks.window_mask(length, keys, 2))


@pytest.mark.parametrize(("window", "sinks"), [(0, 0), (-2, 1), (3, -1), (3, -2), (None, -1)])
def test_task_1_window_refuses_invalid_windows(window, sinks):
    with raises_value_error(f"L 2, S 4, window {window}, sinks {sinks}", str(min(window or 0, sinks))):
        mx.eval(masks.window_mask(2, 4, window, sinks))
