"""Known programs of task 2.4.6, attention of one token."""

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.4.6")


def attended(program, seed, heads, length, dims, scale):
    draw = normals(seed)
    return program(draw(heads, dims), draw(length, dims), draw(length, dims), scale)


@known.probe()
def attend_pairs(program):
    return attended(program, 1, 3, 8, 16, 0.3)


@known.probe()
def attend_some_left(program):
    return attended(program, 2, 2, 11, 20, 0.4)


@known.probe()
def attend_few(program):
    return attended(program, 3, 2, 3, 16, 0.4)


@known.probe()
def attend_one_head(program):
    return attended(program, 4, 1, 9, 16, 0.4)


@known.probe()
def attend_scale_of_one(program):
    return attended(program, 5, 2, 5, 16, 1.0)


@known.probe()
def attend_one_token(program):
    return attended(program, 6, 1, 1, 8, 1.0)


GATHERED = """
for (; s < length; ++s)
  for (int h = 0; h < heads; ++h)
    gather<1>(&scores[h * int64_t(length) + s], values + s * dims, dims, attended + h * dims);
"""
known.change(
    "no-scale",
    (
        "compare<2>(queries + h * dims, keys + s * dims, dims, scale,",
        "compare<2>(queries + h * dims, keys + s * dims, dims, 1,",
    ),
    (
        "compare<1>(queries + h * dims, keys + s * dims, dims, scale,",
        "compare<1>(queries + h * dims, keys + s * dims, dims, 1,",
    ),
    fact="the scale is left out",
    question="By what is a score multiplied before the softmax?",
)
known.change(
    "one-softmax-for-all-heads",
    (
        "for (int h = 0; h < heads; ++h) softmax(&scores[h * int64_t(length)], length);",
        "softmax(scores.data(), heads * length);",
    ),
    fact="one softmax is taken over the scores of all heads",
    question="What do the weights of one head add up to?",
)
known.change(
    "values-left-over-lost",
    (GATHERED, "\n\n"),
    fact="a value that is left over of pairs is left out",
    question="11 values in pairs: who adds the last one?",
)
known.change(
    "no-softmax",
    ("for (int h = 0; h < heads; ++h) softmax(&scores[h * int64_t(length)], length);", ""),
    fact="the scores are the weights, without a softmax",
    question="What do the weights of one head add up to?",
)
known.change(
    "head-0's-weights",
    ("gather<2>(&scores[h * int64_t(length) + s]", "gather<2>(&scores[s]"),
    ("gather<1>(&scores[h * int64_t(length) + s]", "gather<1>(&scores[s]"),
    fact="all heads have the weights of head 0",
    question="At which place of `scores` do those of head 1 begin?",
)
known.change(
    "keys-in-place-of-values",
    (
        "gather<2>(&scores[h * int64_t(length) + s], values + s * dims,",
        "gather<2>(&scores[h * int64_t(length) + s], keys + s * dims,",
    ),
    (GATHERED, GATHERED.replace("values", "keys")),
    fact="the keys are added up, and not the values",
    question="Which of the two does a weight belong to once it is known?",
)
known.accepted_change(
    "one at a time",
    ("int64_t s = 0;", "int64_t s = 0;\nif (length < 0)"),
)


@known.accepted("by NumPy")
def by_numpy(queries, keys, values, scale):
    scores = np.array(queries, np.float64) @ np.array(keys, np.float64).T * scale
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return mx.array((weights @ np.array(values, np.float64)).astype(np.float32))


@known.sized("4 heads of 128, 4,096 tokens")
def timed(program):
    draw = normals(1)
    given = draw(4, 128), draw(4096, 128), draw(4096, 128)
    return lambda: program(*given, 0.088)
