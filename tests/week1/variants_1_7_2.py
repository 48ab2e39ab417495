"""Reference variants of task 1.7.2, top-k."""

import math

import mlx.core as mx
from tests.week1.filters import add_mistakes

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
    k_ties_above=lambda program: program(mx.array([[7.0, 7.0, 2.0, 1.0, 2.0], [0.0, 4.0, 4.0, 4.0, 3.0]]), 3),
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


known.written("without a shortcut for k = V", ("if k >= logits.shape[-1]", "if k > logits.shape[-1]"))
known.change(
    "one-too-few",
    (">= threshold", "> threshold"),
    fact="the k-th largest logit is also dropped, so k - 1 remain",
    question="How do you compare with the k-th largest logit: > or >=?",
)
known.change(
    "one-too-many",
    ("[:, -k, None]", "[:, -k - 1, None]"),
    fact="the k + 1 largest logits are kept",
    question="In a sorted row of 5, which index from the end has the largest number, and which the k-th largest?",
)
known.change(
    "k-smallest",
    ("[:, -k, None]", "[:, k - 1, None]"),
    (">= threshold", "<= threshold"),
    fact="the k smallest logits are kept",
    question="Which end of a sorted row holds the largest?",
)
known.change(
    "drops-the-largest",
    ("logits, -mx.inf)", "-mx.inf, logits)"),
    fact="the k largest logits are dropped and the others kept",
    question="mx.where returns its second argument where the condition is true. Which one is that here?",
)
known.change(
    "positions-taken-for-ranks",
    ("logits >= threshold", "mx.argsort(-logits, axis=-1) < k"),
    fact="argsort's result is compared with k as if it held each token's rank",
    question="argsort([30, 10, 20]) is [1, 2, 0]. Are these numbers positions in the list, or ranks?",
)
known.change(
    "mask-in-sorted-order",
    ("logits >= threshold", "mx.arange(logits.shape[-1]) < k"),
    fact="the first k tokens of the vocabulary are kept, and the logits are ignored",
    question="Your condition is in sorted order. In which order are the logits?",
)
known.change(
    "sorted-result",
    ("if k >=", "logits = -mx.sort(-logits, axis=-1)\nif k >="),
    fact="the logits are returned in sorted order",
    question="Which token does the first logit of a row belong to?",
)
known.change(
    "one-threshold-for-all",
    ("k >= logits.shape[-1]", "k >= logits.size"),
    ("mx.sort(logits, axis=-1)[:, -k, None]", "mx.sort(logits, axis=None)[-k]"),
    fact="the k-th largest logit of the whole batch is the threshold of every row",
    question="What remains of a row whose logits are all below those of another row?",
)
known.change(
    "first-rows-threshold",
    ("[:, -k, None]", "[0, -k]"),
    fact="the first row's k-th largest logit is the threshold of every row",
    question="Is your threshold one number, or one for each row?",
)
known.change(
    "lowest-threshold-for-all",
    ("mx.sort(logits, axis=-1)[:, -k, None]", "mx.min(mx.sort(logits, axis=-1)[:, -k])"),
    fact="the lowest of the rows' thresholds is the threshold of every row",
    question="How many numbers does mx.min(x) without an axis return for an x of 3 x 5?",
)
known.change(
    "k-limited-to-N",
    ("if k >= logits.shape[-1]", "k = min(k, len(logits))\nif k >= logits.shape[-1]"),
    fact="k is limited to N, the number of rows, instead of V",
    question="logits is 2 x 300, and k is 40. What is len(logits), and how many logits of a row should stay?",
)
known.change(
    "distinct-values-counted",
    ("mx.sort(logits, axis=-1)[:, -k, None]",
     "mx.array([sorted(set(row), reverse=True)[:k][-1:] for row in logits.tolist()], logits.dtype)"),
    fact="equal logits count as one, so the k largest distinct values are kept",
    question="k is 2, and a row is 5, 5, 1, 0. How many of its logits are larger than the second largest?",
)  # fmt: skip
known.change(
    "ties-dropped",
    ("logits >= threshold", "mx.argsort(mx.argsort(-logits, axis=-1), axis=-1) < k"),
    fact="exactly k tokens are kept, and others equal to the k-th are dropped",
    question="Two logits equal the k-th largest. Which of them does the docstring let you drop?",
)
add_mistakes(known, "if k >=")
known.change(
    "probabilities",
    ("return logits", "return softmax(logits, axis=-1)"),
    ("return mx.where(", "return softmax(mx.where("),
    ("-mx.inf)", "-mx.inf), axis=-1)"),
    fact="probabilities are returned instead of logits",
    question="What does the next filter take as its input?",
)
known.change(
    "float32-result",
    ("-mx.inf", "mx.array(-mx.inf)"),
    fact="the result is float32 although the logits are not",
    question="What is the dtype of the array that holds your -inf?",
)
known.change(
    "threshold-not-a-column",
    ("[:, -k, None]", "[:, -k]"),
    fact="the row thresholds have lost the vocabulary axis and broadcast along it",
    question="There are N thresholds and N x V logits. Which axis of the logits do the thresholds broadcast along?",
)
known.change(
    "k-above-V",
    ("if k >= logits.shape[-1]:", "if k == logits.shape[-1]:"),
    fact="k is not limited to V",
    question="What is the index of the 50th largest of 40 numbers?",
)
known.change(
    "k-above-V-refused",
    ("if k >= logits.shape[-1]:", "if k == logits.shape[-1]:"),
    ("mx.sort(logits", "mx.partition(logits, -k"),
    fact="k is passed to MLX without being limited to V, and a k above V raises",
    question="How many logits are left to drop when k is 50 and V is 40?",
)
known.change(
    "k-above-V-sliced",
    ("if k >= logits.shape[-1]:", "if k == logits.shape[-1]:"),
    ("mx.sort(logits, axis=-1)[:, -k, None]", "-mx.sort(-logits, axis=-1)[:, k - 1 : k]"),
    fact="k is not limited to V, and a slice that begins after the last column is empty",
    question="What is the shape of x[:, 49:50] for an x with 40 columns?",
)
known.change(
    "dropped-in-every-row",
    ("logits >= threshold", "mx.all(logits >= threshold, axis=0, keepdims=True)"),
    fact="each row loses the tokens that any row drops, as with `logits[:, dropped] = -inf`",
    question="What does `logits[:, dropped]` select when `dropped` has one row of token ids per row of logits?",
)
known.change(
    "kept-in-every-row",
    ("logits >= threshold", "mx.any(logits >= threshold, axis=0, keepdims=True)"),
    fact="each row keeps the tokens that any row keeps, as with `result[:, kept] = logits[:, kept]`",
    question="What does `logits[:, kept]` select when `kept` has one row of token ids per row of logits?",
)
known.change(
    "threshold-of-the-largest",
    ("mx.sort(logits, axis=-1)[:, -k, None]", "mx.max(mx.topk(logits, k, axis=-1), axis=-1, keepdims=True)"),
    fact="the threshold is the largest of the k largest logits",
    question="How many logits of a row are at least as large as your threshold?",
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
