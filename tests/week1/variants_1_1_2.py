"""Reference variants of task 1.1.2, scaled dot-product attention."""

import math

import mlx.core as mx
from tiny_llm_solution.attention import scaled_dot_product_attention_simple as attend
from tiny_llm_solution.basics import softmax

from tiny_llm_course.testkit.inputs import causal, drawn, normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.1.2")


def attention_inputs(seed, dtype=mx.float32):
    return drawn(seed, (2, 3, 6), (2, 5, 6), (2, 5, 6), dtype=dtype)


known.probe_table(
    plain=lambda program: program(*attention_inputs(21)),
    given_scale=lambda program: (program(*attention_inputs(22), scale=0.7), program(*attention_inputs(22), scale=0.0)),
    finite_mask=lambda program: program(*attention_inputs(23), mask=normals(230)(3, 5, spread=2.0)),
    mask_with_zeros=lambda program: program(*attention_inputs(30), mask=mx.array([0.0, 0.0, 1.5, 0.0, -2.0])),
    causal_mask=lambda program: program(*attention_inputs(24), mask=causal(3, 5, mx.float32)),
    as_many_keys_as_features=lambda program: program(*drawn(26, (2, 3, 6), (2, 6, 6), (2, 6, 6))),
    without_leading_dimensions=lambda program: program(*drawn(27, (3, 6), (5, 6), (5, 6))),
)
known.probe_table(
    mx.float16,
    half=lambda program: (
        program(*attention_inputs(25, mx.float16)),
        program(*attention_inputs(25, mx.float16), mask=mx.zeros((3, 5))),
        program(*attention_inputs(25, mx.float16), scale=0.7),
    ),
    # The mask's values exceed float16's range.
    half_far_mask=lambda program: program(
        *attention_inputs(28, mx.float16), mask=mx.array([-1e5, -2e5, -2e5, -2e5, -2e5])
    ),
)


@known.probe()
def attention_arguments(program):
    """Return the arguments after two calls."""
    inputs = tuple(attention_inputs(29))
    mx.eval([program(*inputs) for _ in range(2)])
    return inputs


@known.sized("4 heads of 256 tokens, D 64, float32")
def sized(program):
    three = drawn(1, *[(4, 256, 64)] * 3)
    return lambda: program(*three)


known.change(
    "no-scale",
    ("query.shape[-1] ** -0.5", "1.0"),
    fact="the default scale 1/sqrt(D) is missing",
    question="How does the spread of random vectors' dot products grow from D = 1 to D = 128?",
)
known.change(
    "scale-1-over-D",
    ("query.shape[-1] ** -0.5", "1 / query.shape[-1]"),
    fact="the default scale is 1/D",
    question="The dot product of two random vectors of D numbers has variance D. What is its standard deviation?",
)
known.change(
    "scale-ignored",
    ("if scale is None:", "if True:"),
    fact="the scale is always 1/sqrt(D), and the caller's scale is ignored",
    question="What should scale=0.7 change?",
)
known.change(
    "scale-0-is-default",
    ("if scale is None:", "if not scale:"),
    fact="a scale of 0 is treated as no scale given",
    question="What does `scale or default` give for 0.0?",
)
known.change(
    "scale-divides",
    ("if scale is None:", "scale = scale and 1 / scale\nif scale is None:"),
    fact="the scores are divided by the caller's scale",
    question="The default multiplies by 1/sqrt(D). What should a given scale do?",
)
known.change(
    "scale-with-the-default",
    ("if scale is None:", "scale = scale and scale * query.shape[-1] ** -0.5\nif scale is None:"),
    fact="the scores are multiplied by 1/sqrt(D) as well as by the caller's scale",
    question="With D = 64 and a scale of 0.125, what is a dot product multiplied by?",
)
known.change(
    "mask-ignored",
    ("if mask is not None:", "if False:"),
    fact="the mask is ignored",
    question="Which entries of the result should change when a mask forbids the last key?",
)
known.change(
    "mask-before-scale",
    ("scores + mask", "scores + mask * scale"),
    fact="the mask is added before the scores are scaled",
    question="With D = 64, how much of a mask entry of -2 survives the scaling?",
)
known.change(
    "mask-after-softmax",
    ("(query @ key.swapaxes(-1, -2)) * scale", "softmax(query @ key.swapaxes(-1, -2) * scale, axis=-1)"),
    ("scores + mask", "scores * mx.exp(mask)"),
    ("softmax(scores, axis=-1)", "scores"),
    fact="the mask is applied after the softmax, to the attention weights",
    question="What do the attention weights of a query sum to after some of them are masked out?",
)
known.change(
    "softmax-over-queries",
    ("axis=-1", "axis=-2"),
    fact="the softmax runs over the queries instead of over the keys",
    question="What should sum to one: the weights of one query over all keys, or of one key over all queries?",
)
known.change(
    "no-softmax",
    ("softmax(scores, axis=-1)", "scores"),
    fact="the softmax is missing, and the raw scores multiply the values",
    question="What should the five attention weights of one query sum to?",
)
known.change(
    "float32-result",
    (".astype(value.dtype) @ value", ".astype(value.dtype) @ value.astype(mx.float32)"),
    fact="the result is float32 although the query is not",
    question="Which of your factors is a float32 array: the scale, or a cast?",
)
known.change(
    "mask-dtype",
    ("softmax(scores, axis=-1).astype(value.dtype)", "softmax(scores, axis=-1)"),
    fact="a float32 mask promotes a float16 result to float32",
    question="What is float16 + float32, and when did that addition happen?",
)
known.change(
    "mask-in-the-query's-dtype",
    ("scores + mask", "scores + mask.astype(scores.dtype)"),
    fact="the mask is converted to the query's dtype, in which -100,000 may be -inf",
    question="What is the largest number of float16, and what may a mask contain?",
)
known.change(
    "query-scaled-in-place",
    ("scores = (query @ key.swapaxes(-1, -2)) * scale", "query *= scale\nscores = query @ key.swapaxes(-1, -2)"),
    fact="`query *= scale` also changes the caller's query",
    question="Does `x *= 2` make a new MLX array, or change the one that x and the caller refer to?",
)
known.change(
    "scale-dtype",
    ("query.shape[-1] ** -0.5", "mx.rsqrt(query.shape[-1])"),
    ("softmax(scores, axis=-1).astype(value.dtype)", "softmax(scores, axis=-1)"),
    fact="the default scale is a float32 array, which promotes a float16 result to float32",
    question="What does mx.sqrt return: a Python float or an array, and of which dtype?",
)
known.change(
    "key-not-transposed",
    ("key.swapaxes(-1, -2)", "key"),
    fact="the queries are multiplied by the keys as S x D, without a transpose",
    question="Which axis of the keys should the product with an L x D matrix run over, and which axis comes first?",
)
known.change(
    "key-reshaped",
    ("key.swapaxes(-1, -2)", "key.reshape(*key.shape[:-2], key.shape[-1], key.shape[-2])"),
    fact="the keys are reshaped to D x S instead of transposed",
    question="Write out [[1, 2, 3], [4, 5, 6]] reshaped to 3 x 2, and transposed. Are they equal?",
)
known.change(
    "all-axes-reversed",
    ("key.swapaxes(-1, -2)", "key.T"),
    fact="all axes of the keys are reversed, including the leading ones",
    question="What is the shape of key.T for a key of 2 x 5 x 6?",
)
known.change(
    "scale-by-number-of-keys",
    ("query.shape[-1] ** -0.5", "key.shape[-2] ** -0.5"),
    fact="the default scale is 1/sqrt(S)",
    question="What does one dot product sum over: a vector's features, or the keys?",
)
known.change(
    "forbidden-weights-zero",
    ("scores = scores + mask", "pass"),
    ("softmax(scores, axis=-1)", "(softmax(scores, axis=-1) * (1 if mask is None else mask != -mx.inf))"),
    fact="the weights of masked keys are set to zero after the softmax, and a finite mask has no effect",
    question="What do the attention weights of a query sum to after one of them is set to zero?",
)
known.change(
    "truth-of-the-mask",
    ("if mask is not None:", "if mask:"),
    fact="`if mask` takes the truth value of an array with more than one element",
    question="How can you tell an argument that was not given from an array?",
)
known.change(
    "mask-as-truth",
    ("scores + mask", "mx.where(mask == 0, scores, -mx.inf)"),
    fact="every mask entry other than 0 hides its key, as if the mask were boolean",
    question="How much should a mask entry of -0.5 lower the weight of its key?",
)
known.change(
    "negative-entries-hide",
    ("scores + mask", "mx.where(mask < 0, -mx.inf, scores)"),
    fact="every negative mask entry hides its key, and all other entries are ignored",
    question="A bias of -2 makes a key less likely. How much weight does it get in your program?",
)


@known.accepted("scaled-query")
def scaled_query(query, key, value, scale=None, mask=None):
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return attend(query * factor, key, value, 1.0, mask)


@known.accepted("einsum-in-float32")
def attention_einsum(query, key, value, scale=None, mask=None):
    q, k, v = (x.astype(mx.float32) for x in (query, key, value))
    scores = mx.einsum("...ld,...sd->...ls", q, k) * (query.shape[-1] ** -0.5 if scale is None else scale)
    w = softmax(scores if mask is None else scores + mask, axis=-1)
    return mx.einsum("...ls,...sd->...ld", w, v).astype(query.dtype)
