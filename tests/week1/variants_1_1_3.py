"""Reference variants of task 1.1.3, linear."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import drawn
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.1.3")

known.probe_table(
    with_bias=lambda program: program(*drawn(31, (2, 3, 4), (5, 4), (5,))),
    vector=lambda program: program(*drawn(35, (4,), (5, 4), (5,))),
    refuses=lambda program: refusals(lambda size: program(*drawn(36, (3, size), (5, 4))), [1, 3, 4]),
    square=lambda program: program(*drawn(32, (2, 4), (4, 4))),
)
known.probe_table(
    mx.float16,
    half=lambda program: program(*drawn(33, (3, 4), (5, 4), (5,), dtype=mx.float16)),
    half_without_bias=lambda program: program(*drawn(34, (3, 4), (5, 4), dtype=mx.float16)),
)


@known.sized("x 128 x 256, w 576 x 256, float32")
def sized(program):
    x, w = drawn(1, (128, 256), (576, 256))
    return lambda: program(x, w)


known.change(
    "reshaped-weight",
    ("w.swapaxes(-1, -2)", "w.reshape(w.shape[1], w.shape[0])"),
    fact="w is reshaped to I x O instead of transposed",
    question="Write out [[1, 2, 3], [4, 5, 6]] reshaped to 3 x 2, and transposed. Are they equal?",
)
known.change(
    "not-transposed-when-square",
    ("w.swapaxes(-1, -2)", "(w if w.shape[0] == w.shape[1] else w.swapaxes(-1, -2))"),
    fact="w is transposed only when the shapes do not fit otherwise",
    question="With O = I both products have the same shape. Which of the two does the docstring specify?",
)
known.change(
    "no-bias", ("y + bias", "y"), fact="the bias is not added", question="What should linear return for x = 0?"
)
known.change(
    "bias-subtracted",
    ("y + bias", "y - bias"),
    fact="the bias is subtracted",
    question="What should linear return for x = 0: the bias, or its negative?",
)
known.change(
    "flattened",
    ("y = x", "y = x.reshape(-1, w.shape[1])"),
    fact="the leading dimensions are flattened into one and not restored",
    question="For x of 2 x 3 x 4 and w of 5 x 4, what should the shape of the result be?",
)
known.change(
    "a-batch-of-one",
    ("y = x", "x = x[None] if x.ndim == 1 else x\ny = x"),
    fact="x without leading dimensions becomes a batch of one, and the result keeps that axis",
    question="How many dimensions should the result have for x of 4 and w of 5 x 4?",
)
known.change(
    "float32-result",
    ("y = x", "y = x.astype(mx.float32)"),
    fact="the result is float32 although the inputs are not",
    question="What is the dtype of an operation on three float16 arrays?",
)
known.change(
    "not-transposed",
    ("w.swapaxes(-1, -2)", "w"),
    fact="x is multiplied by w as O x I, without a transpose",
    question="Which axis of w should the product with an N x I matrix run over, and which axis comes first?",
)
known.change(
    "bias-in-a-column",
    ("y + bias", "y + bias[:, None]"),
    fact="the bias is a column, so it broadcasts along the rows of the result",
    question="The result is N x O. Which axis is as long as the bias?",
)
known.change(
    "bias-always-added",
    ("y if bias is None else y + bias", "y + bias"),
    fact="a bias is added even when none is given",
    question="What is `bias` when the caller does not pass one?",
)
known.change(
    "zeros-for-no-bias",
    ("y if bias is None else y + bias", "y + (mx.zeros(w.shape[0]) if bias is None else bias)"),
    fact="float32 zeros are added where there is no bias, and they promote a float16 result",
    question="What is the dtype of mx.zeros(5)?",
)
known.change(
    "truth-of-the-bias",
    ("y if bias is None else y + bias", "y + bias if bias else y"),
    fact="`if bias` takes the truth value of an array with more than one element",
    question="How can you tell an argument that was not given from an array?",
)
known.change(
    "broadcast-and-sum",
    ("x @ w.swapaxes(-1, -2)", "mx.sum(x[..., None, :] * w, axis=-1)"),
    fact="x of one feature is broadcast along the rows of w instead of being rejected",
    question="What does MLX do in x[..., None, :] * w if the last axis of x has size 1?",
)
known.change(
    "no-bias-for-a-vector",
    ("bias is None else", "bias is None or x.ndim == 1 else"),
    fact="the bias is not added if x is a single vector",
    question="What should linear return for a vector of zeros?",
)


@known.accepted("einsum")
def linear_einsum(x, w, bias=None):
    if x.shape[-1] != w.shape[1]:  # einsum broadcasts an axis of 1
        raise ValueError(f"x has {x.shape[-1]} features, w takes {w.shape[1]}")
    y = mx.einsum("...i,oi->...o", x, w)
    return y if bias is None else y + bias


@known.accepted("weights-first")
def weights_first(x, w, bias=None):
    y = (w @ x[..., None]).squeeze(-1)
    return y if bias is None else y + bias
