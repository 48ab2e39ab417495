"""Reference variants of task 1.7.3, top-p."""

import math

import mlx.core as mx
import numpy as np
from tests.week1.filters import add_mistakes, log_rows
from tiny_llm_solution.basics import softmax
from tiny_llm_solution.sampler import keep_top_p

from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.variants import Variants

known = Variants("1.7.3")


NUCLEI = [0.10, 0.42, 0.04, 0.25, 0.17, 0.02], [0.05, 0.03, 0.70, 0.01, 0.09, 0.12]


@known.probe()
def top_p_rows(program):
    logits = log_rows(*NUCLEI)
    return program(logits, 0.6), program(logits, 0.9), logits


known.probe_table(
    p_other_rows=lambda program: program(log_rows([0.13, 0.22, 0.18, 0.3, 0.1, 0.07]) + 2, 0.45),
    p_one_row=lambda program: program(log_rows(NUCLEI[0]), 0.5),
    ends=lambda program: tuple(
        program(mx.array([[30.0, 1.0, -2.0, -9.0], [0.5, 0.1, -0.3, -0.4]]), p) for p in (0.0, 1.0)
    ),
    # Any of the equal tokens may be kept.
    ties=lambda program: mx.sum(program(mx.array([[1.0] * 4, [-2.0] * 4]), 0.5) > -mx.inf, axis=-1),
)
known.probe_table(mx.float16, p_half=lambda program: program(log_rows(*NUCLEI, dtype=mx.float16), 0.6))


@known.probe(mx.float16)
def top_p_many(program):
    result = program(normals(34, mx.float16)(2, 5000, spread=0.3), 0.8)
    left = mx.sum((result > -mx.inf).astype(mx.float32), axis=-1)
    return mx.round(left / 250)  # one or two tokens more or less are rounding; here 3600 of 5000 are kept


@known.sized("float32 logits 1 x 32,768, p 0.9")
def sized(program):
    logits = normals(1)(1, 32768, spread=3.0)
    return lambda: program(logits, 0.9)


known.change(
    "ascending",
    ("mx.argsort(-logits", "mx.argsort(logits"),
    fact="the probabilities are summed from the least likely token up",
    question="In which order does mx.argsort sort, and which token should come first?",
)
known.change(  # a sum of negative numbers is below every p, so nothing is dropped
    "sums-of-log-probabilities",
    ("(before < p) | (mx.arange(logits.shape[-1]) == 0)", "mx.cumsum(mx.log(probabilities), axis=-1) < p"),
    fact="the log-probabilities are summed instead of the probabilities",
    question="What should the sums reach at the end of a row?",
)
known.change(
    "sums-of-logits",
    ("softmax(logits.astype(mx.float32), axis=-1)", "logits.astype(mx.float32)"),
    fact="the logits are summed without a softmax",
    question="What do the logits of a row sum to, and what should your sums reach?",
)
known.change(
    "crossing-dropped",
    ("(before < p) | (mx.arange(logits.shape[-1]) == 0)", "before + probabilities <= p"),
    fact="the token whose probability crosses p is dropped",
    question="Without that token, do the others sum to p?",
)
known.change(
    "crossing-dropped-but-one",
    ("before < p", "before + probabilities <= p"),
    fact="the token whose probability crosses p is dropped, unless it is the most likely one",
    question="Without that token, do the others sum to p?",
)
known.change(
    "crossing-dropped-even-at-1",
    ("if p >= 1", "if p > 1"),
    ("before < p", "mx.cumsum(probabilities, axis=-1) < p"),
    fact="the token whose probability crosses p is dropped, unless it is the most likely one, even for p = 1",
    question="Without that token, do the others sum to p?",
)
known.change(
    "one-too-many",
    ("== 0)", "== 0)\nkept = mx.concatenate([kept[:, :1], kept[:, :-1]], axis=-1)"),
    fact="one extra token is kept after the one that crosses p",
    question="Which tokens' probabilities are in the sum that you compare with p?",
)
known.change(
    "p-is-dropped",
    ("before < p", "before < 1 - p"),
    fact="probability mass p is dropped and 1 - p kept",
    question="How many tokens should p = 0.9 keep, compared with p = 0.1?",
)
known.change(
    "rarer-than-p",
    ("before < p", "probabilities >= 1 - p"),
    fact="the tokens with a probability of at least 1 - p are kept, without any cumulative sum",
    question="Five tokens have 0.2 each. How many of them should p = 0.7 keep?",
)
known.change(
    "mask-in-sorted-order",
    ("mx.take_along_axis(kept, mx.argsort(order, axis=-1), axis=-1)", "kept"),
    fact="the mask stays in sorted order and is applied to the unsorted logits",
    question="The first entry of your mask is for the most likely token. Which token is the first logit for?",
)
known.change(
    "order-used-for-its-inverse",
    ("mx.argsort(order, axis=-1)", "order"),
    fact="the mask is unsorted with the sorting order instead of its inverse",
    question="order is [2, 0, 1]. At which sorted position is token 0?",
)
known.change(
    "sorted-result",
    ("order = ", "logits = -mx.sort(-logits, axis=-1)\norder = "),
    fact="the logits are returned in sorted order",
    question="Which token does the first logit of a row belong to?",
)


@known.wrong(
    "whole-batch",
    fact="all rows are sorted and summed as one",
    question="What should the probabilities of one row sum to?",
)
def whole_batch(logits, p):
    return keep_top_p(logits.reshape(1, -1), p).reshape(logits.shape)


known.change(
    "softmax-over-rows",
    ("(mx.float32), axis=-1", "(mx.float32), axis=0"),
    fact="the softmax runs over the batch instead of the vocabulary",
    question="Along which axis should the probabilities sum to one?",
)
known.change(
    "ties-kept",
    ("== 0)", "== 0)\nkept = probabilities >= mx.min(mx.where(kept, probabilities, 1), axis=-1, keepdims=True)"),
    fact="every token as likely as the last one kept is kept too",
    question="Four tokens have 0.25 each. What is the smallest set that reaches 0.5?",
)
known.change(
    "one-drops-some",
    ("if p >= 1", "if p > 1"),
    fact="p = 1 drops tokens after the float32 sum has reached 1",
    question="What is 1 - 1e-9 in float32, and which tokens should p = 1 keep?",
)
known.change(
    "sums-in-float16",
    ("logits.astype(mx.float32)", "logits"),
    fact="float16 probabilities are summed in float16",
    question="What is 0.5 + 0.0002 in float16?",
)
add_mistakes(known, "return mx.where(")
known.change(
    "probabilities",
    ("return logits", "return softmax(logits, axis=-1)"),
    ("return mx.where(", "return softmax(mx.where("),
    ("-mx.inf)", "-mx.inf), axis=-1)"),
    fact="probabilities are returned instead of logits",
    question="What does the next filter take as its input?",
)
known.change(
    "sum-must-exceed-p",
    ("before < p", "before <= p"),
    fact="tokens are kept until their sum exceeds p, and not only until it reaches p",
    question="Four tokens have 0.25 each. How many of them sum to 0.5 or more?",
)
known.change(
    "log-probabilities-returned",
    (
        "return mx.where(mx.take_along_axis(kept, mx.argsort(order, axis=-1), axis=-1), logits, -mx.inf)",
        "cut = mx.where(mx.take_along_axis(kept, mx.argsort(order, axis=-1), axis=-1), logits, -mx.inf)\n"
        "return (cut - mx.logsumexp(cut.astype(mx.float32), axis=-1, keepdims=True)).astype(logits.dtype)",
    ),
    fact="the log-probabilities of the kept tokens are returned instead of their logits",
    question="A kept token has the logit 2.0. What should it be in the result?",
)
known.change(
    "float32-result",
    ("if p >= 1", "logits = logits.astype(mx.float32)\nif p >= 1"),
    fact="the result is float32 although the logits are not",
    question="Your probabilities may be float32. What should the dtype of the logits be?",
)
known.change(
    "sum-of-all-rows",
    ("mx.cumsum(probabilities, axis=-1, inclusive=False)", "mx.cumsum(probabilities, axis=0, inclusive=False)"),
    fact="the cumulative sum runs along the batch instead of the vocabulary",
    question="Along which axis does the sum run from the most likely token to the least likely?",
)
known.change(
    "order-of-the-last-row",
    ("mx.argsort(-logits, axis=-1)", "mx.broadcast_to(mx.argsort(-logits, axis=-1)[-1:], logits.shape)"),
    fact="every row is sorted in the order of the last row",
    question="What does `logits[:, order]` select when `order` has one row of token ids per row of logits?",
)
known.change(
    "mask-of-the-last-row",
    ("mx.argsort(order, axis=-1), axis=-1)", "mx.argsort(order, axis=-1), axis=-1)[-1:]"),
    fact="every row gets the last row's mask, as with `mask[:, order] = ...`",
    question="`mask[:, order] = kept` writes row 0 of mask once for each row of order. What remains in it?",
)
known.change(
    "result-of-the-last-row",
    ("return mx.where(", "return mx.broadcast_to(mx.where("),
    ("logits, -mx.inf)", "logits, -mx.inf)[-1:], logits.shape)"),
    fact="every row is the last row's result, as with `result[:, order] = ...`",
    question="`result[:, order] = x` writes row 0 of result once for each row of order. What remains in it?",
)
known.change(
    "orders-of-all-rows",
    ("mx.take_along_axis(kept, mx.argsort(order, axis=-1), axis=-1)", "kept[:, mx.argsort(order, axis=-1)]"),
    fact="the mask is indexed by `[:, order]`, so it has every row in the order of every row, N x N x V",
    question="What is the shape of `mask[:, order]` if mask and order both have three rows?",
)
known.change(
    "zero-leaves-nothing",
    ("(before < p) | (mx.arange(logits.shape[-1]) == 0)", "before < p"),
    fact="p = 0 keeps no token at all",
    question="What is the sum before the most likely token, and is it below 0?",
)
known.together("crossing-dropped-but-one", "zero-leaves-nothing", makes="crossing-dropped")
known.together("ascending", "ties-kept", makes="sums-of-log-probabilities")  # which drops nothing


@known.accepted("row-by-row")
def top_p_row_by_row(logits, p):
    rows = []
    for row in logits.astype(mx.float32).tolist():
        weights = np.exp(np.array(row, np.float64) - max(row))
        kept, total = set(), 0.0
        for token in sorted(range(len(row)), key=lambda t: -row[t]):
            if kept and total >= p and p < 1:
                break
            kept.add(token)
            total += float(weights[token] / weights.sum())
        rows.append([x if t in kept else -math.inf for t, x in enumerate(row)])
    return mx.array(rows).astype(logits.dtype)


@known.accepted("from-the-rarest-up")
def from_the_rarest_up(logits, p):
    """Drop a token if it and all less likely ones sum to 1 - p or less."""
    order = mx.argsort(logits, axis=-1)
    probabilities = mx.take_along_axis(softmax(logits.astype(mx.float32), axis=-1), order, axis=-1)
    drop = (mx.cumsum(probabilities, axis=-1) <= 1 - p) & (p < 1)
    drop = drop & (mx.arange(logits.shape[-1]) < logits.shape[-1] - 1)
    return mx.put_along_axis(
        mx.array(logits), order, mx.where(drop, -mx.inf, mx.take_along_axis(logits, order, axis=-1)), -1
    )
