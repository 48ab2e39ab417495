"""Reference variants of the open task of week 1: checks of scaled dot-product attention, right and wrong."""

import mlx.core as mx
import numpy as np
from tiny_llm_solution.attention import scaled_dot_product_attention_simple

from tiny_llm_course.testkit.inputs import causal, normals
from tiny_llm_course.testkit.judging import check_verdicts
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.C")


known.probe_table(programs_let_through=lambda check: check_verdicts(check, of="1.1.2"))


known.not_timed("a check runs once per variant")


known.change(
    "looks-at-nothing",
    ("for dtype in (mx.float32, mx.float16, mx.bfloat16):", "return\nfor dtype in (mx.float32,):"),
    fact="never calls the program",
    question="What does your check do with `attention`?",
)
known.change(
    "stops-everything",
    ("distance <= allowed", "distance < 0"),
    fact="rejects every program, right or wrong",
    question="Has your check ever passed? Which program would prove that it can?",
)


@known.wrong(
    "returns-what-it-finds",
    fact="returns the result of its comparison instead of asserting it",
    question="Does anything read the value that your check returns?",
)
def returns_what_it_finds(attention):
    query, key, value = (normals(i)(2, *size) for i, size in enumerate([(3, 6), (5, 6), (5, 6)]))
    mask = causal(3, 5, mx.float32)
    same = [
        mx.allclose(attention(*inputs), scaled_dot_product_attention_simple(*inputs))
        for inputs in ((query, key, value), (query, key, value, 0.7, mask))
    ]
    return all(each.item() for each in same)


known.change(
    "shapes-only",
    ("assert result.dtype == dtype", "return\nassert result.dtype == dtype"),
    fact="compares only shapes",
    question="Which wrong programs return the right shape?",
)
known.change(
    "shapes-and-dtypes-only",
    ("assert distance <= allowed", "return\nassert distance <= allowed"),
    fact="compares only shapes and dtypes, never values",
    question="How many wrong programs return an array of the right shape and dtype?",
)
known.change(
    "float32-only",
    ("(mx.float32, mx.float16, mx.bfloat16)", "(mx.float32,)"),
    ("query, key, value = _inputs(mx.float16, 2)", "query, key, value = _inputs(mx.float32, 2)"),
    ("first.astype(mx.float32), mx.float16", "first, mx.float32"),
    fact="passes only float32 inputs, or does not compare dtypes",
    question="What should the dtype of the result be when the query is float16, and does your check test it?",
)
known.change(
    "no-mask",
    (", None), (None, hidden), (0.7, bias), (None, narrow), (0.0, bias + hidden", ", None), (0.7, None), (0.0, None"),
    ("mx.ones_like(value), mask=hidden)", "mx.ones_like(value))"),
    ("first.astype(mx.float32)", "_formula(query, key, value, None, None)"),
    (", mask=far)", ")"),
    fact="never passes a mask",
    question="Which of the five arguments does your check pass?",
)
known.change(
    "masks-of-infinities-only",
    ("(0.7, bias), (None, narrow), (0.0, bias + hidden)", "(0.7, hidden), (0.0, None)"),
    ("[-1e5, -2e5, -2e5, -2e5, -2e5]", "[0, *[-mx.inf] * 4]"),
    fact="passes only masks of 0 and -inf",
    question="A mask may also be a bias. Which values would it have then?",
)
known.change(
    "masks-within-float16",
    ("-1e5, -2e5, -2e5, -2e5, -2e5", "-1e4, -2e4, -2e4, -2e4, -2e4"),
    fact="passes no mask beyond the range of float16",
    question="The docstring says that a mask's values may exceed something. What is it?",
)
known.change(
    "arguments-not-compared",
    ('assert all(mx.array_equal(*pair) for pair in pairs), "an argument was changed"', "pass"),
    fact="does not check that the arguments are unchanged",
    question="A program scales the query in place. Does your check compare the query before and after the call?",
)
known.change(
    "masks-in-the-query's-dtype",
    (
        "expected = _formula(query, key, value, scale",
        "mask = mask if mask is None else mask.astype(dtype)\nexpected = _formula(query, key, value, scale",
    ),
    (", mask=far)", ", mask=bias.astype(mx.float16) + mx.array([9e3, 0, 0, 0, 0], mx.float16))"),
    fact="passes masks only in the query's dtype",
    question="What does the docstring say about the mask's dtype?",
)
known.change(
    "default-scale-only",
    ("(0.7, bias)", "(None, bias)"),
    ("(0.0, bias + hidden)", "(None, bias + hidden)"),
    fact="never passes a scale",
    question="Which of the five arguments does your check pass?",
)
known.change(
    "scale-never-0",
    ("(0.0, bias + hidden)", "(None, bias + hidden)"),
    fact="never passes a scale of 0",
    question="Which numbers are false in Python?",
)
known.change(
    "as-many-keys-as-features",
    ("((3, 6), (5, 6), (5, 6))", "((3, 5), (5, 5), (5, 5))"),
    fact="has as many keys as features",
    question="Which two sizes are equal in your inputs, and which mistake could that hide?",
)
known.change(
    "no-leading-dimensions",
    ("_inputs(dtype, 2)", "_inputs(dtype)"),
    ("_inputs(mx.float16, 2)", "_inputs(mx.float16)"),
    ("_inputs(mx.float32, 2)", "_inputs(mx.float32)"),
    ("((), (1, 4))", "((),)"),
    fact="passes no leading dimensions",
    question="What is key.T for a key with three axes?",
)
known.change(
    "too-wide",
    ("16 * mx.finfo(dtype).eps", "1.0"),
    fact="has a tolerance of 1",
    question="How large are the values that you compare, and how much does a mistake change them?",
)
known.change(
    "mistaken-itself",
    ("query.shape[-1] ** -0.5 if scale", "1.0 if scale"),
    fact="omits the default scale in its own reference",
    question="How did you verify the values that your check expects?",
)


@known.wrong(
    "to-the-last-digit",
    fact="requires bit-exact equality with one implementation",
    question="Two correct programs sum in different orders. How far apart may their results be in float16?",
)
def to_the_last_digit(attention):
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        query, key, value = (normals(i, dtype)(2, *size) for i, size in enumerate([(3, 6), (5, 6), (5, 6)]))
        bias = normals(3)(3, 5) + causal(3, 5, mx.float32)
        for scale, mask in ((None, None), (0.7, bias), (0.0, None)):
            expected = scaled_dot_product_attention_simple(query, key, value, scale, mask)
            result = attention(query, key, value, scale, mask)
            assert result.dtype == expected.dtype
            assert mx.array_equal(result, expected)


@known.wrong(
    "sums-only",
    fact="tests only that the attention weights sum to one",
    question="Which wrong attention weights also sum to one?",
)
def sums_only(attention):
    query, key, value = (normals(i)(2, *size) for i, size in enumerate([(3, 6), (5, 6), (5, 6)]))
    for mask in (None, causal(3, 5, mx.float32)):
        result = attention(query, key, mx.ones_like(value), mask=mask)
        assert mx.allclose(result, mx.ones_like(query)), "attention weights do not sum to one"


@known.accepted("held-against-the-operator")
def held_against_the_operator(attention):
    for dtype in (mx.float32, mx.float16, mx.bfloat16):
        query, key, value = (normals(i, dtype)(2, 1, *size) for i, size in enumerate([(3, 6), (5, 6), (5, 6)]))
        far = mx.array([[-1e5, -2e5, -2e5, -2e5, -2e5]])
        for mask in (None, normals(3)(3, 5), causal(3, 5, mx.float32), far):
            for scale in (None, 2.5, 0.0):
                result = attention(query, key, value, scale=scale, mask=mask)
                if result.dtype != dtype:
                    raise TypeError(f"{result.dtype} of {dtype}")
                wide = (x.astype(mx.float32) for x in (query, key, value))
                expected = mx.fast.scaled_dot_product_attention(
                    *wide, scale=6**-0.5 if scale is None else scale, mask=mask
                )
                assert mx.allclose(result.astype(mx.float32), expected, rtol=0, atol=20 * mx.finfo(dtype).eps)


@known.accepted("loops-in-float64")
def loops_in_float64(attention):
    for dtype, close in ((mx.float32, 1e-5), (mx.float16, 2e-2)):
        query, key, value = (normals(i, dtype)(2, *size) for i, size in enumerate([(2, 3), (4, 3), (4, 3)]))
        for scale in (None, 1.5, 0):
            far = mx.array([[-1e5, -2e5, -2e5, -2e5]] * 2)
            for mask in (mx.zeros((2, 4)), normals(5)(2, 4), causal(2, 4, mx.float32), far):
                result = attention(query, key, value, scale, mask)
                assert (result.shape, result.dtype) == ((2, 2, 3), dtype)
                q, k, v, m = (np.array(x.astype(mx.float32), np.float64) for x in (query, key, value, mask))
                for b in range(2):
                    for i in range(2):
                        scores = [q[b, i] @ k[b, j] * (3**-0.5 if scale is None else scale) + m[i, j] for j in range(4)]
                        w = np.exp(np.array(scores) - max(scores))
                        for d in range(3):
                            assert abs(result[b, i, d].item() - sum(w / w.sum() * v[b, :, d])) < close
