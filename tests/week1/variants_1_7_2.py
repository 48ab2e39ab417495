"""Known programs of task 1.7.2, top-k."""

import math

import mlx.core as mx

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.7.2")


@known.probe()
def top_k_rows(program):
    logits = normals(21)(3, 7)
    return program(logits, 3), program(logits * 2 - 4, 2), logits


known.probe_table(
    k_one=lambda program: program(normals(22)(2, 5), 1),
    k_ties=lambda program: program(mx.array([[1.0, 2.0, 2.0, 0.5, 2.0, 3.0], [3.0, -1.0, -1.0, 4.0, 5.0, 6.0]]), 2),
    k_all=lambda program: program(normals(23)(2, 5), 5),
    k_more_than_all=lambda program: program(normals(27)(2, 5), 6),
    k_one_row=lambda program: program(normals(25)(1, 6), 3),
    k_square=lambda program: program(normals(26)(4, 4), 2),
)
known.probe_table(mx.float16, k_half=lambda program: program(normals(24, mx.float16)(3, 7), 4))


@known.sized("float32 logits 1 x 151,936, k 50")
def sized(program):
    logits = normals(1)(1, 151936)
    return lambda: program(logits, 50)


known.written("without a short cut for k = V", ("if k >= logits.shape[-1]", "if k > logits.shape[-1]"))
known.change(
    "one-too-few",
    (">= threshold", "> threshold"),
    fact="the k-th largest logit is dropped, so that k - 1 are left",
    question="Your comparison meets the k-th largest logit itself: is it > or >=?",
)
known.change(
    "one-too-many",
    ("[:, -k, None]", "[:, -k - 1, None]"),
    fact="the k + 1 largest logits are left",
    question="In a sorted row of 5, which index from the end has the largest one, and which the k-th?",
)
known.change(
    "k-smallest",
    ("[:, -k, None]", "[:, k - 1, None]"),
    (">= threshold", "<= threshold"),
    fact="the k smallest logits are left",
    question="Which end of a sorted row holds the largest?",
)
known.change(
    "drops-the-largest",
    ("logits, -mx.inf)", "-mx.inf, logits)"),
    fact="the k largest logits are dropped and the others left",
    question="mx.where takes its second argument where the condition is true. Which one is that?",
)
known.change(
    "positions-taken-for-ranks",
    ("logits >= threshold", "mx.argsort(-logits, axis=-1) < k"),
    fact="argsort's result is compared with k as if it were each token's rank",
    question="argsort([30, 10, 20]) is [1, 2, 0]. Which numbers are positions in it, and which are ranks?",
)
known.change(
    "mask-in-sorted-order",
    ("logits >= threshold", "mx.arange(logits.shape[-1]) < k"),
    fact="the first k tokens of the vocabulary are left, whatever their logits",
    question="Your condition was made in sorted order. In which order are the logits?",
)
known.change(
    "sorted-result",
    ("if k >=", "logits = -mx.sort(-logits, axis=-1)\nif k >="),
    fact="the logits come back sorted",
    question="Which token does the first number of a row belong to?",
)
known.change(
    "one-threshold-for-all",
    ("k >= logits.shape[-1]", "k >= logits.size"),
    ("mx.sort(logits, axis=-1)[:, -k, None]", "mx.sort(logits, axis=None)[-k]"),
    fact="the k-th largest logit of the whole batch is the threshold of every row",
    question="What is left of a row whose logits all lie below those of another row?",
)
known.change(
    "first-rows-threshold",
    ("[:, -k, None]", "[0, -k]"),
    fact="the first row's k-th largest logit is the threshold of every row",
    question="Is your threshold one number, or one for each row?",
)
known.change(
    "ties-dropped",
    ("logits >= threshold", "mx.argsort(mx.argsort(-logits, axis=-1), axis=-1) < k"),
    fact="exactly k tokens are left, and others equal to the k-th are dropped",
    question="Two logits are equal to the k-th. Which of them does the docstring let you drop?",
)
known.change(
    "zeros",
    ("-mx.inf", "0"),
    fact="the dropped logits become 0 instead of -inf",
    question="What is the probability of a logit of 0 beside one of -2?",
)
known.change(
    "large-negative",
    ("-mx.inf", "-10000"),
    fact="the dropped logits become -10000 instead of -inf",
    question="Which float is never drawn, whatever the other logits are?",
)
known.change(
    "probabilities",
    ("return logits", "return softmax(logits, axis=-1)"),
    ("return mx.where(", "return softmax(mx.where("),
    ("-mx.inf)", "-mx.inf), axis=-1)"),
    fact="probabilities come back instead of logits",
    question="What does the next filter expect to be given?",
)
known.change(
    "float32-result",
    ("-mx.inf", "mx.array(-mx.inf)"),
    fact="the result is float32 although the logits are not",
    question="Which dtype has the array that holds your -inf?",
)
known.change(
    "threshold-not-a-column",
    ("[:, -k, None]", "[:, -k]"),
    fact="the thresholds of the rows are lined up with the tokens: there is no axis for these",
    question="There are N thresholds and N x V logits. Which axis of the logits do the thresholds meet?",
)

known.change(
    "k-above-V",
    ("if k >= logits.shape[-1]:", "if k == logits.shape[-1]:"),
    fact="a k larger than V is not taken for all",
    question="Which index from the end has the 50th largest of 40 numbers?",
)


@known.accepted("partition")
def top_k_partition(logits, k):
    k = min(k, logits.shape[-1])
    threshold = -mx.partition(-logits, k - 1, axis=-1)[:, k - 1 : k]
    return mx.where(logits < threshold, mx.array(-mx.inf, dtype=logits.dtype), logits)


@known.accepted("row-by-row")
def top_k_row_by_row(logits, k):
    rows = []
    for row in logits.astype(mx.float32).tolist():
        kth = sorted(row, reverse=True)[:k][-1]
        rows.append([x if x >= kth else -math.inf for x in row])
    return mx.array(rows).astype(logits.dtype)
