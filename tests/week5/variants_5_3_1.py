"""Known programs of task 5.3.1, the gradients of a linear layer."""

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.outcomes import refusals
from tiny_llm_course.testkit.variants import Variants

known = Variants("5.3.1")


def inputs(seed, dtype=mx.float32, leading=(2, 3), I=5, O=4):  # noqa: E741
    draw = normals(seed, dtype)
    return draw(*leading, I), draw(O, I), draw(*leading, O)


known.probe_table(
    sequences=lambda program: program(*inputs(1)),
    tokens=lambda program: program(*inputs(2, leading=(6,))),
    one_token=lambda program: program(*inputs(3, leading=())),
    batches_of_sequences=lambda program: program(*inputs(8, leading=(2, 2, 3))),
    square=lambda program: program(*inputs(4, leading=(4,), I=4)),
    square_sequences=lambda program: program(*inputs(5, leading=(2, 4), I=4)),
)
known.probe_table(mx.float16, half=lambda program: program(*inputs(6, mx.float16)))


@known.probe()
def linear_refused(program):
    x, w, _ = inputs(7)
    shapes = [(3, 4), (2, 3, 1), (2, 3, 5), (6, 4)]
    return refusals(lambda shape: program(x, w, mx.ones(shape)), shapes)


@known.sized("x 512 x 512, w 512 x 512, float32")
def sized(program):
    x, w, dy = inputs(1, leading=(512,), I=512, O=512)
    return lambda: list(program(x, w, dy))


DW = "dw = dy.reshape(-1, outputs).T @ x.reshape(-1, inputs)"
known.change(
    "weights-transposed",
    (DW, "dw = x.reshape(-1, inputs).T @ dy.reshape(-1, outputs)"),
    fact="dw is transposed: I x O instead of O x I",
    question="Which shape does w have, and which one does its gradient need?",
)
known.change(
    "dx-not-transposed-when-square",
    ("dx = dy @ w", "dx = dy @ (w.T if outputs == inputs else w)"),
    fact="dx is dy @ w.T where w is square, that is, the forward pass applied to dy",
    question="Input 0 goes into every output. Which weights are they: a row of w, or a column?",
)
known.change(
    "averaged-over-tokens",
    (DW, DW.replace("dw = ", "dw = 1 / (dy.size // outputs) * ") + "\ndw = dw.astype(dy.dtype)"),
    fact="dw is the mean over the tokens instead of the sum",
    question="A cross-entropy is divided by the number of tokens. How often should its gradient be?",
)
known.change(
    "averaged-over-the-batch",
    (DW, f"{DW} / (dy.shape[0] if dy.ndim > 2 else 1)"),
    fact="dw is divided by the number of sequences",
    question="Does each sequence contribute to dw less if there are more of them?",
)
known.change(
    "one-gradient-per-sequence",
    (DW, f"{DW}\nif dy.ndim > 2:\n    dw = dy.swapaxes(-1, -2) @ x"),
    fact="dw is not summed over the leading axes: there is one for each sequence",
    question="How many weight matrices does the layer have, and how many gradients?",
)
known.change(
    "one-leading-axis-summed",
    (DW, f"{DW}\nif dy.ndim > 2:\n    dw = mx.sum(dy.swapaxes(-1, -2) @ x, axis=0)"),
    fact="dw is summed over the tokens and one more leading axis, but not over further ones",
    question="x is 2 x 3 x 4 x I. Which axes does your dw have?",
)
known.change(
    "last-sequence-only",
    (DW, f"{DW}\nif dy.ndim > 2:\n    dw = (dy.swapaxes(-1, -2) @ x)[-1]"),
    fact="dw has the part of the last sequence only",
    question="Two sequences went through the same weights. Which of them changes the loss?",
)
known.change(
    "swapped",
    ("return dx, dw", "return dw, dx"),
    fact="the two gradients are returned in the wrong order",
    question="Which of the two does the docstring list first?",
)
known.change(
    "w-for-dy",
    ("dx = dy @ w", "dx = mx.ones_like(dy) @ w"),
    fact="dx does not depend on dy: every output counts as 1",
    question="The loss ignores output 3, so its dy is 0. Should the weights of output 3 appear in dx?",
)
known.change(
    "x-not-used",
    (DW, "dw = dy.reshape(-1, outputs).T @ mx.ones_like(x.reshape(-1, inputs))"),
    fact="dw does not depend on x: it is the gradient of a bias, repeated",
    question="If an input is 0, what does its weight change?",
)
known.change(
    "float32-results",
    ("return dx, dw", "return dx.astype(mx.float32), dw.astype(mx.float32)"),
    fact="the gradients are float32 although the arrays are not",
    question="What should be the dtype for arrays of float16?",
)
known.change(
    "shapes-not-checked",
    ("_check_dy(dy, (*x.shape[:-1], w.shape[0]))", ""),
    fact="dy's shape is not checked, and MLX raises another message or none",
    question="x is 2 x 3 x 5 and dy is 6 x 4. Do the products fit?",
)


@known.accepted("einsum")
def by_einsum(x, w, dy):
    if dy.shape != (*x.shape[:-1], len(w)):
        raise ValueError(f"dy has shape {dy.shape}, but {(*x.shape[:-1], len(w))} is needed")
    rows, d = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    return mx.einsum("...o,oi->...i", dy, w), mx.einsum("no,ni->oi", d, rows)


@known.accepted("a sum over sequences")
def summed(x, w, dy):
    if dy.shape[:-1] != x.shape[:-1] or dy.shape[-1] != w.shape[0]:
        raise ValueError(f"dy has shape {dy.shape}, but {(*x.shape[:-1], w.shape[0])} is needed")
    x, d = (a if a.ndim > 1 else a[None] for a in (x, dy))
    dw = d.swapaxes(-1, -2) @ x
    return dy @ w, mx.sum(dw.reshape(-1, *w.shape), axis=0)
