"""Reference variants of task 1.1.1, softmax."""

import mlx.core as mx
from tiny_llm_solution.basics import softmax

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.1.1")


@known.probe()
def softmax_three_axes(program):
    x = normals(11)(3, 4, 5, spread=2.0)
    return program(x, 1), program(x, -1), x


@known.probe()
def softmax_rows_far_apart(program):
    x = normals(12)(3, 4) + mx.array([[200.0], [0.0], [-200.0]])
    return program(x, -1), program(mx.contiguous(x.T), 0)


known.probe_table(mx.float16, half=lambda program: program(normals(13, mx.float16)(3, 4), -1))
known.probe_table(
    vector=lambda program: (program(normals(14)(5), -1), program(normals(15)(5), 0)),
    square=lambda program: program(normals(16)(4, 4), -1),
    wide_rows=lambda program: program(normals(17)(2, 5, spread=100.0), -1),
    # The largest score is 60 above the mean and 120 above the smallest.
    wide_row=lambda program: program(mx.array([60.0, 59.0, -59.0, -60.0]), -1),
)


@known.sized("x 64 x 4,096, float32")
def sized(program):
    x = normals(1)(64, 4096)
    return lambda: program(x, -1)


known.change(
    "no-maximum",
    (" - mx.max(x, axis=axis, keepdims=True)", ""),
    fact="the exponentials are taken without subtracting the largest score first",
    question="What is exp(200) in float32, and in float16?",
)
known.change(
    "global-maximum",
    ("mx.max(x, axis=axis, keepdims=True)", "mx.max(x)"),
    fact="the largest score of the whole array is subtracted from every row",
    question="What happens to a row whose own largest score is 200 below that of another row?",
)
known.change(
    "axis-ignored",
    ("shifted = x", "axis = -1\nshifted = x"),
    fact="the softmax always runs along the last axis, and `axis` is ignored",
    question="For x of 3 x 4 and axis 0, which numbers should sum to one?",
)
known.change(
    "sum-of-everything",
    ("mx.sum(exponentials, axis=axis, keepdims=True)", "mx.sum(exponentials)"),
    fact="the exponentials are divided by the sum over the whole array",
    question="How many sums does an array of 3 x 4 need along its last axis?",
)
known.change(
    "log-softmax",
    ("exponentials / mx.sum(exponentials,", "shifted - mx.logsumexp(shifted,"),
    fact="the result is the logarithm of the probabilities",
    question="Can a weight be negative?",
)
known.change(
    "float32-result",
    ("shifted = x", "shifted = x.astype(mx.float32)"),
    fact="the result stays float32 although the scores have another dtype",
    question="Which dtype should float16 scores return, and where was it lost?",
)
known.change(
    "in-place",
    ("shifted = x -", "shifted = x\nshifted -="),
    fact="the largest score is subtracted in place, which changes the caller's array",
    question="After softmax(x, -1), what does the caller find in x?",
)
known.change(
    "sum-without-its-axis",
    ("mx.sum(exponentials, axis=axis, keepdims=True)", "mx.sum(exponentials, axis=axis)"),
    fact="the sums have lost the reduced axis and broadcast along a different one",
    question="x is 3 x 4. What is the shape of its row sums, and with which axis of x do they broadcast?",
)
known.change(
    "maximum-without-its-axis",
    ("mx.max(x, axis=axis, keepdims=True)", "mx.max(x, axis=axis)"),
    fact="the maxima have lost the reduced axis and broadcast along a different one",
    question="x is 3 x 4. What is the shape of its row maxima, and with which axis of x do they broadcast?",
)
known.change(
    "reduced-axis-last",
    ("mx.max(x, axis=axis, keepdims=True)", "mx.max(x, axis=axis)[..., None]"),
    ("mx.sum(exponentials, axis=axis, keepdims=True)", "mx.sum(exponentials, axis=axis)[..., None]"),
    fact="the reduced axis is restored as the last one, whatever `axis` is",
    question="x is 3 x 4 and axis is 0. What is the shape of the maxima, and what does [..., None] make of it?",
)
known.change(
    "divided-by-the-largest",
    ("mx.sum(exponentials,", "mx.max(exponentials,"),
    fact="the exponentials are divided by the largest of them instead of by their sum",
    question="What do the probabilities of a row of equal scores sum to?",
)
known.change(
    "minimum-subtracted",
    ("mx.max(x,", "mx.min(x,"),
    fact="the smallest score of each row is subtracted instead of the largest",
    question="How large can the exponentials become then?",
)
known.change(
    "sum-ignores-the-axis",
    ("mx.sum(exponentials, axis=axis", "mx.sum(exponentials, axis=-1"),
    fact="`axis` is used for the maximum, but the sum always runs along the last axis",
    question="For x of 3 x 4 and axis 0, how many sums does your code compute?",
)
known.change(
    "mean-subtracted",
    ("mx.max(x,", "mx.mean(x,"),
    fact="the mean score of each row is subtracted instead of the largest",
    question="How far above the mean of a row may its largest score be, and what is exp of that?",
)


@known.accepted("reciprocal")
def by_reciprocal(x, axis):
    e = mx.exp(x - x.max(axis, keepdims=True))
    return e * mx.reciprocal(e.sum(axis, keepdims=True))


@known.accepted("float32-inside")
def float32_inside(x, axis):
    return softmax(x.astype(mx.float32), axis).astype(x.dtype)


@known.accepted("exp-of-the-log")
def exp_of_the_log(x, axis):
    return mx.exp(x - mx.logsumexp(x, axis=axis, keepdims=True))
