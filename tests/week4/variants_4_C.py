"""Known programs of the open task of week 4: checks of masked attention, good ones and bad ones."""

from functools import partial

import mlx.core as mx
import numpy as np
from tests.week4.formulas_day1 import masked64
from tests.week4.masks import blind, may_look, seeing, small_heads
from tiny_llm_solution.masks.attention import masked_attention

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.judging import check_verdicts
from tiny_llm_course.testkit.outcomes import refusal
from tiny_llm_course.testkit.variants import Variants

known = Variants("4.C")


@known.probe()
def programs_let_through(check):
    return check_verdicts(check, of="4.1.2")


known.not_timed("a check is run once for each change of a program")

SIZES = "((3, 4, 5), (4, 4, 4))"
TAKEN = 'raise AssertionError(f"takes a mask of {mask.shape}, {mask.dtype}")'
SCALES = "(None, 0.7, 0.0, None, 2.0, None)"
CALL = "_agrees(attention(query, key, value, mask=mask, scale=scale), query, key, value, mask, scale)"
FAR = "ones = attention(query, key, mx.ones_like(value), mask=far)"

known.change(
    "looks-at-nothing",
    ("for dtype in (mx.float32, mx.float16, mx.bfloat16):", "return\nfor dtype in (mx.float32,):"),
    fact="never calls the program",
    question="What does your check do with `attention`?",
)
known.change(
    "stops-everything",
    ("distance <= 16", "distance < -16"),
    fact="fails every program, right or wrong",
    question="Has your check ever passed? Which program would show that it can?",
)


@known.wrong(
    "returns-what-it-finds",
    fact="returns the result of its comparison instead of raising",
    question="What happens to the value your check returns?",
)
def returns_what_it_finds(attention):
    inputs = small_heads(1)
    masks = None, seeing(2, 4, 5)
    same = [mx.allclose(attention(*inputs, m), masked_attention(*inputs, m), atol=1e-4) for m in masks]
    return all(each.item() for each in same)


known.change(
    "shapes-only",
    ("assert result.dtype == query.dtype", "return\nassert result.dtype == query.dtype"),
    (FAR, "ones = mx.ones_like(value)"),
    fact="compares shapes and errors, but no dtypes and no numbers",
    question="Which wrong programs return the right shape?",
)
known.change(
    "no-numbers",
    ("expected = _formula", "return\nexpected = _formula"),
    (FAR, "ones = mx.ones_like(value)"),
    fact="compares shapes and dtypes, but no numbers",
    question="How many wrong programs return an array of the right shape and dtype?",
)
known.change(
    "float32-only",
    ("(mx.float32, mx.float16, mx.bfloat16)", "(mx.float32,)"),
    fact="uses float32 only",
    question="What is -100,000 in float16, and where would you notice?",
)
known.change(
    "no-mask",
    ("mask=mask, scale=scale), query, key, value, mask", "mask=None, scale=scale), query, key, value, None"),
    (FAR, "ones = mx.ones_like(value)"),
    ("mx.eval(attention(query, key, value, mask=mask))", "return"),
    fact="never passes a mask",
    question="Which of the five arguments does your check pass?",
)
known.change(
    "boolean-masks-only",
    (CALL, f"if mask is None or mask.dtype == mx.bool_:\n    {CALL}"),
    (FAR, "ones = mx.ones_like(value)"),
    fact="uses only boolean masks when it compares numbers",
    question="What does the docstring say about masks that are not boolean?",
)
known.change(
    "float-masks-only",
    (CALL, f"if mask is None or mask.dtype != mx.bool_:\n    {CALL}"),
    fact="uses only float masks when it compares numbers",
    question="What does the docstring say about masks that are not floats?",
)
known.change(
    "masks-of-infinities-only",
    (CALL, f"mask = mask if mask is None or mask.dtype == mx.bool_ else mx.where(mask < 0, -mx.inf, 0.0)\n{CALL}"),
    (FAR, "ones = mx.ones_like(value)"),
    fact="uses only float masks that hold just 0 and -inf",
    question="A mask can also raise or lower a score. Which numbers would it hold then?",
)
known.change(
    "no-row-fully-masked",
    ("seeing = mx.arange(length)[:, None] != 1", "seeing = mx.arange(length)[:, None] >= 0"),
    fact="has no fully masked row",
    question="What does the docstring promise for a query that sees no key?",
)
known.change(
    "all-rows-or-none-masked",
    ("seeing = mx.arange(length)[:, None] != 1", "seeing = mx.arange(length)[:, None] < 0"),
    fact="masks either all rows fully or none",
    question="One row is fully masked, and its neighbors are not. Which program is wrong only then?",
)
known.change(
    "nan-is-not-larger",
    ("assert distance <= 16 * mx.finfo(query.dtype).eps", "assert not distance > 16 * mx.finfo(query.dtype).eps"),
    fact="tests whether the difference is too large, which is false for NaN",
    question="Is NaN > 0.001? Is NaN <= 0.001?",
)
known.change(
    "sizes-that-differ-only",
    (SIZES, "((3, 4, 5),)"),
    fact="uses no two equal sizes",
    question="A mask is transposed. With which sizes does no error tell you?",
)
known.change(
    "same-mask-for-all-texts",
    ("yield (drawn(2, 1, length, keys) < 0) | first", "yield (drawn(length, keys) < 0) | first"),
    ("seeing, drawn(2, 1, length, keys)", "seeing, drawn(length, keys)"),
    ("_is_refused(attention, query[:1], key[:1], value[:1], mx.zeros((2, 1, 4, 5)))", "pass"),
    fact="uses the same mask for all sequences of a batch",
    question="In a batch, which sequence does a row of padding belong to?",
)
known.change(
    "far-below-zero-left-out",
    ("assert mx.max(mx.abs(ones.astype(mx.float32) - 1)) <= 8 * mx.finfo(dtype).eps", "assert ones.size"),
    fact="uses masks with numbers near 0 and with -inf, but none in between",
    question="Which number is far below zero, and is not -inf?",
)
known.change(
    "nothing-to-refuse",
    (TAKEN, "pass"),
    fact="does not check that invalid masks raise",
    question="Which errors does the docstring promise?",
)
known.change(
    "shapes-to-refuse-only",
    (", mx.ones((4, 5), mx.int32)", ""),
    fact="tries masks of wrong shapes, but none of a wrong dtype",
    question="Which dtypes may a mask have, and what must happen with others?",
)
known.change(
    "default-scale-only",
    (SCALES, "(None,) * 6"),
    fact="never passes a scale",
    question="Which of the five arguments does your check pass?",
)
known.change(
    "too-wide",
    ("16 * mx.finfo(query.dtype).eps", "2.0"),
    fact="allows an absolute error of 2",
    question="How large are the numbers that you compare, and how much does a mistake change them?",
)


@known.wrong(
    "operator-as-oracle",
    fact="expects for fully masked rows what MLX's operator returns",
    question="What does MLX's operator return for a query that sees no key, and what does the docstring promise?",
)
def operator_as_oracle(attention):
    for dtype in (mx.float32, mx.float16):
        inputs = small_heads(3, dtype)
        for mask in (None, may_look(4, 4, 5) & (mx.arange(4)[:, None] != 1)):
            expected = mx.fast.scaled_dot_product_attention(*inputs, scale=6**-0.5, mask=mask)
            result = attention(*inputs, mask)
            assert result.dtype == dtype
            assert mx.allclose(result, expected, rtol=0, atol=20 * mx.finfo(dtype).eps)


known.change(
    "to-the-last-digit",
    (
        "expected = _formula(query, key, value, mask, scale)",
        """
        from tiny_llm_solution.masks.attention import masked_attention
        expected = masked_attention(query, key, value, mask, scale)
        """,
    ),
    ("16 * mx.finfo(query.dtype).eps", "0"),
    fact="requires bit-exact results",
    question="Two right programs sum in different orders. How far apart may their results be in float16?",
)


@known.accepted("text-by-text-in-float64")
def in_float64(attention):
    for dtype in (mx.float32, mx.float16):
        for heads, keys in ((3, 5), (4, 4)):
            inputs = small_heads(9, dtype, heads, 4, keys)
            wide = [np.array(x.astype(mx.float32), np.float64) for x in inputs]
            seen, rows = blind(10, 2, 1, 4, keys), blind(13, 4, keys)
            bias = mx.where(normals(11)(4, keys) < 0, 0.0, normals(12)(4, keys))
            hides = mx.where(seen, 0.0, -mx.inf)
            for scale in (None, 0, 1.5):
                for mask in (None, seen, rows, bias, hides):
                    result = attention(*inputs, mask, scale)
                    assert result.dtype == dtype
                    given = {} if mask is None else {"bool_mask" if mask.dtype == mx.bool_ else "mask": np.array(mask)}
                    expected = masked64(*wide, **given, scale=scale)
                    assert np.abs(np.array(result.astype(mx.float32)) - expected).max() <= 20 * mx.finfo(dtype).eps
            far = attention(*inputs[:2], mx.ones_like(inputs[2]), mx.zeros((4, keys)) - 1e5)
            assert mx.allclose(far, mx.ones_like(far), atol=1e-2)
    for mask in (mx.zeros((4, 5), mx.int32), mx.zeros((1, 2, 3, 4, 5)), mx.zeros((2, 1, 4, 5))):
        assert refusal(partial(attention, *(x[:1] for x in small_heads(13)), mask)) == 1


def near(result, expected, dtype, close=40):
    """Check a shape and a dtype, and numbers to within a number of ulps."""
    assert (result.shape, result.dtype) == (expected.shape, dtype)
    distance = mx.max(mx.abs(result.astype(mx.float32) - expected.astype(mx.float32)))
    assert distance <= close * mx.finfo(dtype).eps


@known.accepted("padding-cut-away")
def padding_cut_away(attention):
    """By properties: hidden keys can be removed, a constant in all scores changes nothing, booleans equal numbers."""
    for dtype in (mx.float32, mx.bfloat16):
        for heads, keys in ((3, 5), (4, 4)):
            query, key, value = small_heads(14, dtype, heads, 4, keys)

            wide = [x.astype(mx.float32) for x in (query, key, value)]
            for scale in (None, 0.0, 0.7):
                plain = mx.fast.scaled_dot_product_attention(*wide, scale=6**-0.5 if scale is None else scale)
                near(attention(query, key, value, None, scale), plain, dtype)
            ends = mx.array([3, 2])[:, None, None, None]
            there = mx.broadcast_to(mx.arange(keys) < ends, (2, 1, 4, keys)) & (mx.arange(4)[:, None] != 3)
            zero = mx.zeros((heads, 1, 6))
            for mask in (there, mx.where(there, 0.0, -mx.inf)):
                cut = [attention(query[i], key[i, :, :n], value[i, :, :n]) for i, n in enumerate((3, 2))]
                cut = [mx.concatenate([each[:, :3], zero.astype(dtype)], axis=1) for each in cut]
                near(attention(query, key, value, mask), mx.stack(cut), dtype)
            stairs = mx.arange(keys) <= mx.arange(4)[:, None]
            expected = mx.fast.scaled_dot_product_attention(*wide, scale=6**-0.5, mask=stairs)
            near(attention(query, key, value, stairs), expected, dtype)
            bias = mx.where(mx.arange(keys) % 2 == 0, 0.0, normals(15)(4, keys))
            expected = mx.fast.scaled_dot_product_attention(*wide, scale=6**-0.5, mask=bias)
            near(attention(query, key, value, bias), expected, dtype)
            far = attention(query, key, mx.ones_like(value), mx.full((4, keys), -1e5))
            near(far, mx.ones(query.shape), dtype)
    half = [x.astype(mx.float16) for x in small_heads(16)]
    ones = attention(half[0], half[1], mx.ones_like(half[2]), mx.full((4, 5), -1e5))
    assert ones.dtype == mx.float16
    assert mx.max(mx.abs(ones - 1)) < 0.1
    for mask in (mx.ones((4, 5), mx.int32), mx.ones((2, 1, 4, 5)) == 1):
        assert refusal(partial(attention, *(x[:1] for x in small_heads(17)), mask)) == 1
