"""Reference variants of task 2.4.6, attention for one token."""

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.inputs import drawn
from tiny_llm_course.testkit.variants import Variants

known = Variants("2.4.6")


def attended(program, seed, heads, length, dims, scale):
    return program(*drawn(seed, (heads, dims), (length, dims), (length, dims)), scale)


known.probe_table(
    pairs=lambda program: attended(program, 1, 3, 8, 16, 0.3),
    some_left=lambda program: attended(program, 2, 2, 11, 20, 0.4),
    few=lambda program: attended(program, 3, 2, 3, 16, 0.4),
    one_head=lambda program: attended(program, 4, 1, 9, 16, 0.4),
    scale_of_one=lambda program: attended(program, 5, 2, 5, 16, 1.0),
    one_token=lambda program: attended(program, 6, 1, 1, 8, 1.0),
)


GATHERED = """
for (; s < length; ++s)
  for (int h = 0; h < heads; ++h)
    gather<1>(&scores[h * int64_t(length) + s], values + s * dims, dims, attended + h * dims);
"""
LAST_KEYS = """
for (; s < length; ++s)
  for (int h = 0; h < heads; ++h)
    compare<1>(queries + h * dims, keys + s * dims, dims, scale, &scores[h * int64_t(length) + s]);
"""
known.written(
    "four at a time",
    ("for (; s + 2 <= length; s += 2) {", "for (; s + 4 <= length; s += 4) {"),
    ("compare<2>(", "compare<4>("),
    ("for (s = 0; s + 2 <= length; s += 2) {", "for (s = 0; s + 4 <= length; s += 4) {"),
    ("gather<2>(", "gather<4>("),
)
known.change(
    "no-scale",
    ("<2>(queries + h * dims, keys + s * dims, dims, scale, &", "<2>(queries + h * dims, keys + s * dims, dims, 1, &"),
    ("s * dims, dims, scale, &scores[h * int64_t(length) + s]", "s * dims, dims, 1, &scores[h * int64_t(length) + s]"),
    fact="the scale is missing",
    question="What is a score multiplied by before the softmax?",
)
known.change(
    "scale-twice",
    (
        "<2>(queries + h * dims, keys + s * dims, dims, scale, &",
        "<2>(queries + h * dims, keys + s * dims, dims, scale * scale, &",
    ),
    (LAST_KEYS, LAST_KEYS.replace("dims, scale,", "dims, scale * scale,")),
    fact="the scale is applied twice, such as to the queries and again by `compare`",
    question="By which factor do all scores change if the scale is doubled?",
)
known.change(
    "one-softmax-for-all-heads",
    ("for (int h = 0; h < heads; ++h) softmax(&scores[h * int64_t(length)], ", "softmax(scores.data(), heads * "),
    fact="one softmax runs over the scores of all heads",
    question="What should the attention weights of one head sum to?",
)
known.change(
    "values-left-over-lost",
    (GATHERED, "\n\n"),
    fact="values left over after the pairs, or other full groups, are not added",
    question="11 values in pairs: which call adds the last one?",
)
known.change(
    "last-keys-unscaled",
    (LAST_KEYS, LAST_KEYS.replace("scale", "1")),
    fact="the scale is missing for the keys left over after the pairs, or other full groups",
    question="11 keys in pairs: what is the last key's dot product multiplied by?",
)
known.change(
    "last-keys-skipped",
    (LAST_KEYS, "\n"),
    fact="keys left over after the pairs, or other full groups, keep a score of 0",
    question="11 keys in pairs: which call computes the last key's score?",
)
known.change(
    "left-over-ignored",
    (LAST_KEYS, "\n"),
    (GATHERED, "\n\n"),
    fact="keys and values left over after the pairs, or other full groups, are ignored, but their scores count as 0",
    question="11 tokens in pairs: which calls handle the last one, and what is its score?",
)
known.change(
    "only-head-0-starts-at-0",
    ("attended + heads * dims, 0.0f", "attended + dims, 0.0f"),
    fact="only the output of head 0 is set to 0 before the values are added",
    question="How many numbers does the output of all heads have, and how many does `fill` set?",
)
known.change(
    "no-softmax",
    ("for (int h = 0; h < heads; ++h) softmax(&scores[h * int64_t(length)], length);", ""),
    fact="the raw scores are used as attention weights, without a softmax",
    question="What should the attention weights of one head sum to?",
)
known.change(
    "head-0's-weights",
    ("gather<2>(&scores[h * int64_t(length) + s]", "gather<2>(&scores[s]"),
    ("gather<1>(&scores[h * int64_t(length) + s]", "gather<1>(&scores[s]"),
    fact="all heads use the attention weights of head 0",
    question="At which index of `scores` do those of head 1 start?",
)
known.change(
    "keys-in-place-of-values",
    ("2>(&scores[h * int64_t(length) + s], values + s * dims", "2>(&scores[h * int64_t(length) + s], keys + s * dims"),
    (GATHERED, GATHERED.replace("values", "keys")),
    fact="the keys are summed instead of the values",
    question="Which of the two does an attention weight multiply?",
)


def online(queries, keys, values, scale, *, rescaled):
    """Attend to one key after another with a running maximum; `rescaled` names what is rescaled when it grows."""
    queries, keys, values = (np.array(x, np.float64) for x in (queries, keys, values))
    largest, total, seen = np.full(len(queries), -np.inf), np.zeros(len(queries)), 0 * queries
    for key, value in zip(keys, values, strict=True):
        scores = queries @ key * scale
        new = np.maximum(largest, scores)
        kept, weights, largest = np.exp(largest - new), np.exp(scores - new), new
        total = total * (kept if "total" in rescaled else 1) + weights
        seen = seen * (kept[:, None] if "values" in rescaled else 1) + weights[:, None] * value
    return mx.array((seen / total[:, None]).astype(np.float32))


@known.wrong(
    "total-not-rescaled",
    fact="the running sum of the weights is not rescaled when the maximum score grows",
    question="Relative to which score are the weights in the sum so far?",
)
def total_not_rescaled(queries, keys, values, scale):
    return online(queries, keys, values, scale, rescaled=("values",))


@known.wrong(
    "values-not-rescaled",
    fact="the weighted values so far are not rescaled when the maximum score grows",
    question="Relative to which score are the weights of the values so far?",
)
def values_not_rescaled(queries, keys, values, scale):
    return online(queries, keys, values, scale, rescaled=("total",))


@known.wrong(
    "last-head's-weights",
    fact="all heads use the attention weights of the last head",
    question="Every head writes to your buffer of scores. Whose scores are left when the softmax runs?",
)
def last_heads_weights(queries, keys, values, scale):
    return by_numpy(mx.broadcast_to(queries[-1:], queries.shape), keys, values, scale)


@known.accepted("online softmax")
def by_online_softmax(queries, keys, values, scale):
    return online(queries, keys, values, scale, rescaled=("total", "values"))


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
    given = drawn(1, (4, 128), (4096, 128), (4096, 128))
    return lambda: program(*given, 0.088)
