"""Day 7's known programs: the mistakes that learners make, right programs in other words, and the probes.

Two right samplers draw different tokens from the same seed, so the sampler's probes rest on what no draw can change:
choices without a draw, which tokens occur at all in hundreds of draws, and which calls repeat each other.
"""

import math

import mlx.core as mx
import numpy as np

from tiny_llm_course.checks import normals
from tiny_llm_course.packages import load_solution
from tiny_llm_course.variants import Variants

load_solution()
from tiny_llm_solution.basics import softmax  # noqa: E402
from tiny_llm_solution.sampler import (  # noqa: E402
    keep_min_p,
    keep_top_k,
    keep_top_p,
    penalize_repetition,
)

day = Variants()

INF = mx.inf


def log_rows(*rows, shift=-3, dtype=mx.float32):
    """Logits with these probabilities; those of the second row are shifted."""
    return mx.array([[math.log(p) + shift * (i % 2) for p in row] for i, row in enumerate(rows)]).astype(dtype)


# 1.7.1 repetition penalty

USED = [[2, 0, 2, 2], [5], [1, 4, 3]]


@day.probe("1.7.1")
def penalty_rows(program):
    logits = normals(11)(3, 6, spread=2.0)
    return program(logits, USED, 1.5), logits


@day.probe("1.7.1")
def penalty_no_tokens(program):
    return program(normals(12)(2, 5), [[], [1]], 1.3)


@day.probe("1.7.1", mx.float16)
def penalty_half(program):
    return program(normals(13, mx.float16)(3, 6), USED, 1.5)


def penalized_by(change):
    """A penalty that changes the logits of used tokens by `change(logits, penalty)`."""

    def program(logits, tokens, penalty):
        used = penalize_repetition(mx.ones(logits.shape), tokens, 2.0) < 1
        return mx.where(used, change(logits, penalty), logits)

    return program


@day.wrong(
    "1.7.1", "always-divided",
    fact="negative logits are divided by the penalty too",
    question="Is -1 a less likely logit than -2, or a likelier one?",
)  # fmt: skip
def always_divided(logits, tokens, penalty):
    return penalized_by(lambda x, p: x / p)(logits, tokens, penalty)


@day.wrong(
    "1.7.1", "always-multiplied",
    fact="positive logits are multiplied by the penalty too",
    question="What becomes of a logit of 2 with a penalty of 1.5, and is it less likely then?",
)  # fmt: skip
def always_multiplied(logits, tokens, penalty):
    return penalized_by(lambda x, p: x * p)(logits, tokens, penalty)


@day.wrong(
    "1.7.1", "signs-exchanged",
    fact="positive logits are multiplied by the penalty and negative ones divided",
    question="Should a token that was used become likelier?",
)  # fmt: skip
def signs_exchanged(logits, tokens, penalty):
    return penalized_by(lambda x, p: mx.where(x > 0, x * p, x / p))(logits, tokens, penalty)


@day.wrong(
    "1.7.1", "subtracted",
    fact="the penalty is subtracted",
    question="A penalty of 1 must change nothing. Does subtracting 1?",
)  # fmt: skip
def subtracted(logits, tokens, penalty):
    return penalized_by(lambda x, p: x - p)(logits, tokens, penalty)


@day.wrong(
    "1.7.1", "once-per-occurrence",
    fact="a token is penalized again each time it occurs",
    question="A token was used three times. By what should its logit be divided?",
)  # fmt: skip
def once_per_occurrence(logits, tokens, penalty):
    rows = []
    for row, seen in enumerate(tokens):
        one = logits[row : row + 1]
        for token in seen:
            one = penalize_repetition(one, [[token]], penalty)
        rows.append(one)
    return mx.concatenate(rows)


@day.wrong(
    "1.7.1", "whole-batch",
    fact="the tokens of any row are penalized in every row",
    question="Two requests share a batch. Should one's words change the other's?",
)  # fmt: skip
def whole_batch(logits, tokens, penalty):
    return penalize_repetition(logits, [[token for seen in tokens for token in seen]] * len(tokens), penalty)


@day.wrong(
    "1.7.1", "first-row",
    fact="the first row's tokens are penalized in every row",
    question="Where do the tokens of the second row go?",
)  # fmt: skip
def first_row(logits, tokens, penalty):
    return penalize_repetition(logits, [tokens[0]] * len(tokens), penalty)


@day.wrong(
    "1.7.1", "last-token",
    fact="only the last token of each row is penalized",
    question="Which tokens has a row used?",
)  # fmt: skip
def last_token(logits, tokens, penalty):
    return penalize_repetition(logits, [seen[-1:] for seen in tokens], penalty)


@day.wrong(
    "1.7.1", "unused-penalized",
    fact="the tokens that were not used are penalized",
    question="For which tokens is your condition true?",
)  # fmt: skip
def unused_penalized(logits, tokens, penalty):
    others = [[t for t in range(logits.shape[1]) if t not in seen] for seen in tokens]
    return penalize_repetition(logits, others, penalty)


@day.wrong(
    "1.7.1", "in-place",
    fact="the penalized logits are written into the caller's array",
    question="Who else holds the array that your assignment changes?",
)  # fmt: skip
def in_place(logits, tokens, penalty):
    logits[...] = penalize_repetition(logits, tokens, penalty)
    return logits


@day.wrong(
    "1.7.1", "float32-result",
    fact="the result is float32 although the logits are not",
    question="Which of your factors is an array of float32?",
)  # fmt: skip
def penalty_float32(logits, tokens, penalty):
    return penalize_repetition(logits, tokens, penalty).astype(mx.float32)


@day.accepted("1.7.1", "token-by-token")
def token_by_token(logits, tokens, penalty):
    numbers = np.array(logits.astype(mx.float32))
    for row, seen in zip(numbers, tokens, strict=True):
        for token in set(seen):
            row[token] *= penalty if row[token] < 0 else 1 / penalty
    return mx.array(numbers).astype(logits.dtype)


@day.accepted("1.7.1", "gather-and-put-back")
def gather_and_put_back(logits, tokens, penalty):
    result = mx.array(logits)
    for row, seen in enumerate(tokens):
        if seen:
            old = logits[row, mx.array(seen)]
            result[row, mx.array(seen)] = mx.where(old < 0, old * penalty, old / penalty)
    return result


# 1.7.2 top-k


@day.probe("1.7.2")
def top_k_rows(program):
    logits = normals(21)(3, 7)
    return program(logits, 3), program(logits * 2 - 4, 2), logits


@day.probe("1.7.2")
def top_k_one(program):
    return program(normals(22)(2, 5), 1)


@day.probe("1.7.2")
def top_k_ties(program):
    return program(mx.array([[1.0, 2.0, 2.0, 0.5, 2.0, 3.0], [3.0, -1.0, -1.0, 4.0, 5.0, 6.0]]), 2)


@day.probe("1.7.2")
def top_k_all(program):
    return program(normals(23)(2, 5), 5)


@day.probe("1.7.2", mx.float16)
def top_k_half(program):
    return program(normals(24, mx.float16)(3, 7), 4)


def ranks(logits):
    """The rank of each logit in its row, 0 for the largest."""
    return mx.argsort(mx.argsort(-logits, axis=-1), axis=-1)


def where_kept(kept, logits, other=-INF):
    return mx.where(kept, logits, mx.array(other, dtype=logits.dtype))


@day.wrong(
    "1.7.2", "one-too-few",
    fact="the k-th largest logit is dropped, so that k - 1 are left",
    question="Your comparison meets the k-th largest logit itself: is it > or >=?",
)  # fmt: skip
def one_too_few(logits, k):
    kth = mx.sort(logits, axis=-1)[:, -min(k, logits.shape[-1]), None]
    return where_kept(logits > kth, logits)


@day.wrong(
    "1.7.2", "one-too-many",
    fact="the k + 1 largest logits are left",
    question="In a sorted row of 5, which index from the end has the largest one, and which the k-th?",
)  # fmt: skip
def one_too_many(logits, k):
    return keep_top_k(logits, k + 1)


@day.wrong(
    "1.7.2", "k-smallest",
    fact="the k smallest logits are left",
    question="Which end of a sorted row holds the largest?",
)  # fmt: skip
def k_smallest(logits, k):
    return -where_kept(keep_top_k(-logits, k) > -INF, -logits, INF)


@day.wrong(
    "1.7.2", "drops-the-largest",
    fact="the k largest logits are dropped and the others left",
    question="mx.where takes its second argument where the condition is true. Which one is that?",
)  # fmt: skip
def drops_the_largest(logits, k):
    return where_kept(keep_top_k(logits, k) == -INF, logits)


@day.wrong(
    "1.7.2", "positions-taken-for-ranks",
    fact="argsort's result is compared with k as if it were each token's rank",
    question="argsort([30, 10, 20]) is [1, 2, 0]. Which numbers are positions in it, and which are ranks?",
)  # fmt: skip
def positions_taken_for_ranks(logits, k):
    return where_kept(mx.argsort(-logits, axis=-1) < k, logits)


@day.wrong(
    "1.7.2", "mask-in-sorted-order",
    fact="the first k tokens of the vocabulary are left, whatever their logits",
    question="Your condition was made in sorted order. In which order are the logits?",
)  # fmt: skip
def mask_in_sorted_order(logits, k):
    return where_kept(mx.arange(logits.shape[-1]) < k, logits)


@day.wrong(
    "1.7.2", "sorted-result",
    fact="the logits come back sorted",
    question="Which token does the first number of a row belong to?",
)  # fmt: skip
def sorted_result(logits, k):
    return -mx.sort(-keep_top_k(logits, k), axis=-1)


@day.wrong(
    "1.7.2", "one-threshold-for-all",
    fact="the k-th largest logit of the whole batch is the threshold of every row",
    question="What is left of a row whose logits all lie below those of another row?",
)  # fmt: skip
def one_threshold_for_all(logits, k):
    return keep_top_k(logits.reshape(1, -1), k).reshape(logits.shape)


@day.wrong(
    "1.7.2", "first-rows-threshold",
    fact="the first row's k-th largest logit is the threshold of every row",
    question="Is your threshold one number, or one for each row?",
)  # fmt: skip
def first_rows_threshold(logits, k):
    return where_kept(logits >= mx.sort(logits[0])[-min(k, logits.shape[-1])], logits)


@day.wrong(
    "1.7.2", "ties-dropped",
    fact="exactly k tokens are left, and others equal to the k-th are dropped",
    question="Two logits are equal to the k-th. Which of them does the docstring let you drop?",
)  # fmt: skip
def ties_dropped(logits, k):
    return where_kept(ranks(logits) < k, logits)


@day.wrong(
    "1.7.2", "zeros",
    fact="the dropped logits become 0 instead of -inf",
    question="What is the probability of a logit of 0 beside one of -2?",
)  # fmt: skip
def top_k_zeros(logits, k):
    return where_kept(keep_top_k(logits, k) > -INF, logits, 0)


@day.wrong(
    "1.7.2", "large-negative",
    fact="the dropped logits become -10000 instead of -inf",
    question="Which float is never drawn, whatever the other logits are?",
)  # fmt: skip
def top_k_large_negative(logits, k):
    return where_kept(keep_top_k(logits, k) > -INF, logits, -10000)


@day.wrong(
    "1.7.2", "probabilities",
    fact="probabilities come back instead of logits",
    question="What does the next filter expect to be given?",
)  # fmt: skip
def top_k_probabilities(logits, k):
    return softmax(keep_top_k(logits, k), -1)


@day.wrong(
    "1.7.2", "float32-result",
    fact="the result is float32 although the logits are not",
    question="Which dtype has the array that holds your -inf?",
)  # fmt: skip
def top_k_float32(logits, k):
    return keep_top_k(logits, k).astype(mx.float32)


@day.accepted("1.7.2", "partition")
def top_k_partition(logits, k):
    k = min(k, logits.shape[-1])
    threshold = -mx.partition(-logits, k - 1, axis=-1)[:, k - 1 : k]
    return mx.where(logits < threshold, mx.array(-INF, dtype=logits.dtype), logits)


@day.accepted("1.7.2", "row-by-row")
def top_k_row_by_row(logits, k):
    rows = []
    for row in logits.astype(mx.float32).tolist():
        kth = sorted(row, reverse=True)[:k][-1]
        rows.append([x if x >= kth else -math.inf for x in row])
    return mx.array(rows).astype(logits.dtype)


# 1.7.3 top-p

NUCLEI = [0.10, 0.42, 0.04, 0.25, 0.17, 0.02], [0.05, 0.03, 0.70, 0.01, 0.09, 0.12]


@day.probe("1.7.3")
def top_p_rows(program):
    logits = log_rows(*NUCLEI)
    return program(logits, 0.6), program(logits, 0.9), logits


@day.probe("1.7.3")
def top_p_other_rows(program):
    return program(log_rows([0.13, 0.22, 0.18, 0.3, 0.1, 0.07]) + 2, 0.45)


@day.probe("1.7.3")
def top_p_ends(program):
    logits = mx.array([[30.0, 1.0, -2.0, -9.0], [0.5, 0.1, -0.3, -0.4]])
    return program(logits, 0.0), program(logits, 1.0)


@day.probe("1.7.3")
def top_p_ties(program):
    result = program(mx.array([[1.0] * 4, [-2.0] * 4]), 0.5)
    return mx.sum(result > -INF, axis=-1)  # which of the equal tokens are left is free


@day.probe("1.7.3", mx.float16)
def top_p_half(program):
    return program(log_rows(*NUCLEI, dtype=mx.float16), 0.6)


@day.probe("1.7.3", mx.float16)
def top_p_many(program):
    result = program(normals(34, mx.float16)(2, 5000, spread=0.3), 0.8)
    left = mx.sum((result > -INF).astype(mx.float32), axis=-1)
    return mx.round(left / 250)  # one or two tokens more or less are rounding; here 3600 of 5000 are left


def by_rank(rule, logits, p):
    """A top-p with another rule: `rule(probabilities from the likeliest down, p)` says which of them are kept."""
    if p >= 1:
        return logits
    order = mx.argsort(-logits, axis=-1)
    probabilities = mx.take_along_axis(softmax(logits.astype(mx.float32), axis=-1), order, axis=-1)
    return where_kept(mx.take_along_axis(rule(probabilities, p), mx.argsort(order, axis=-1), axis=-1), logits)


def smallest_set(probabilities, p):
    before = mx.cumsum(probabilities, axis=-1, inclusive=False)
    return (before < p) | (mx.arange(probabilities.shape[-1]) == 0)


@day.wrong(
    "1.7.3", "ascending",
    fact="the probabilities are summed from the rarest token up",
    question="In which order does mx.argsort sort, and which token should come first?",
)  # fmt: skip
def ascending(logits, p):
    if p >= 1:
        return logits
    order = mx.argsort(logits, axis=-1)
    probabilities = mx.take_along_axis(softmax(logits.astype(mx.float32), axis=-1), order, axis=-1)
    return where_kept(mx.take_along_axis(smallest_set(probabilities, p), mx.argsort(order, axis=-1), axis=-1), logits)


@day.wrong(
    "1.7.3", "sums-of-log-probabilities",
    fact="logarithms of the probabilities are summed instead of the probabilities",
    question="Which numbers should add up to 1 at the end of a row?",
)  # fmt: skip
def sums_of_log_probabilities(logits, p):
    # A sum of negative numbers is below every p, so nothing is dropped.
    return by_rank(lambda q, p: mx.cumsum(mx.log(q), axis=-1) < p, logits, p)


@day.wrong(
    "1.7.3", "sums-of-logits",
    fact="the logits themselves are summed, without a softmax",
    question="What do the logits of a row sum to, and what should the numbers that you sum add up to?",
)  # fmt: skip
def sums_of_logits(logits, p):
    if p >= 1:
        return logits
    order = mx.argsort(-logits, axis=-1)
    before = mx.cumsum(mx.take_along_axis(logits.astype(mx.float32), order, axis=-1), axis=-1, inclusive=False)
    kept = (before < p) | (mx.arange(logits.shape[-1]) == 0)
    return where_kept(mx.take_along_axis(kept, mx.argsort(order, axis=-1), axis=-1), logits)


@day.wrong(
    "1.7.3", "crossing-dropped",
    fact="the token whose probability crosses p is dropped",
    question="Without that token, do the others sum to p?",
)  # fmt: skip
def crossing_dropped(logits, p):
    return by_rank(lambda q, p: mx.cumsum(q, axis=-1) <= p, logits, p)


@day.wrong(
    "1.7.3", "crossing-dropped-but-one",
    fact="the token whose probability crosses p is dropped, unless it is the likeliest",
    question="Without that token, do the others sum to p?",
)  # fmt: skip
def crossing_dropped_but_one(logits, p):
    return by_rank(lambda q, p: (mx.cumsum(q, axis=-1) <= p) | (mx.arange(q.shape[-1]) == 0), logits, p)


@day.wrong(
    "1.7.3", "one-too-many",
    fact="one more token is left after the one that crosses p",
    question="Which tokens' probabilities are in the sum that you compare with p?",
)  # fmt: skip
def top_p_one_too_many(logits, p):
    def rule(q, p):
        kept = smallest_set(q, p)
        return mx.concatenate([mx.ones((len(q), 1), mx.bool_), kept[:, :-1]], axis=-1)

    return by_rank(rule, logits, p)


@day.wrong(
    "1.7.3", "p-is-dropped",
    fact="probability p is dropped and 1 - p left",
    question="How many tokens should p = 0.9 leave, compared with p = 0.1?",
)  # fmt: skip
def p_is_dropped(logits, p):
    return by_rank(lambda q, p: smallest_set(q, 1 - p), logits, p)


@day.wrong(
    "1.7.3", "rarer-than-p",
    fact="the tokens whose own probability is at least 1 - p are left, without any sum",
    question="Five tokens have 0.2 each. How many of them should p = 0.7 leave?",
)  # fmt: skip
def rarer_than_p(logits, p):
    return by_rank(lambda q, p: (q >= 1 - p) | (mx.arange(q.shape[-1]) == 0), logits, p)


@day.wrong(
    "1.7.3", "mask-in-sorted-order",
    fact="the mask is left in sorted order and applied to the logits as they are",
    question="The first place of your mask belongs to the likeliest token. To which token does the first logit belong?",
)  # fmt: skip
def top_p_mask_in_sorted_order(logits, p):
    probabilities = -mx.sort(-softmax(logits.astype(mx.float32), axis=-1), axis=-1)
    return logits if p >= 1 else where_kept(smallest_set(probabilities, p), logits)


@day.wrong(
    "1.7.3", "order-used-for-its-inverse",
    fact="the mask is put back with the sorting order itself instead of its inverse",
    question="order is [2, 0, 1]. Where in sorted order does token 0 stand?",
)  # fmt: skip
def order_used_for_its_inverse(logits, p):
    if p >= 1:
        return logits
    order = mx.argsort(-logits, axis=-1)
    probabilities = mx.take_along_axis(softmax(logits.astype(mx.float32), axis=-1), order, axis=-1)
    return where_kept(mx.take_along_axis(smallest_set(probabilities, p), order, axis=-1), logits)


@day.wrong(
    "1.7.3", "sorted-result",
    fact="the logits come back sorted",
    question="Which token does the first number of a row belong to?",
)  # fmt: skip
def top_p_sorted_result(logits, p):
    return logits if p >= 1 else -mx.sort(-keep_top_p(logits, p), axis=-1)


@day.wrong(
    "1.7.3", "whole-batch",
    fact="all rows are sorted and summed as one",
    question="What should the probabilities of one row sum to?",
)  # fmt: skip
def top_p_whole_batch(logits, p):
    return keep_top_p(logits.reshape(1, -1), p).reshape(logits.shape)


@day.wrong(
    "1.7.3", "softmax-over-rows",
    fact="the softmax runs over the rows of the batch instead of the vocabulary",
    question="Along which axis should the probabilities sum to one?",
)  # fmt: skip
def softmax_over_rows(logits, p):
    if p >= 1:
        return logits
    order = mx.argsort(-logits, axis=-1)
    probabilities = mx.take_along_axis(softmax(logits.astype(mx.float32), axis=0), order, axis=-1)
    return where_kept(mx.take_along_axis(smallest_set(probabilities, p), mx.argsort(order, axis=-1), axis=-1), logits)


@day.wrong(
    "1.7.3", "ties-kept",
    fact="every token as likely as the last one in the set is left too",
    question="Four tokens have 0.25 each. What is the smallest set that reaches 0.5?",
)  # fmt: skip
def ties_kept(logits, p):
    left = keep_top_p(logits, p)
    return where_kept(logits >= mx.min(mx.where(left > -INF, left, INF), axis=-1, keepdims=True), logits)


@day.wrong(
    "1.7.3", "one-drops-some",
    fact="p = 1 drops tokens once the float32 sum has reached 1",
    question="What is 1 - 1e-9 in float32, and which tokens should p = 1 leave?",
)  # fmt: skip
def one_drops_some(logits, p):
    probabilities = softmax(logits.astype(mx.float32), axis=-1)
    order = mx.argsort(-logits, axis=-1)
    kept = smallest_set(mx.take_along_axis(probabilities, order, axis=-1), p)
    return where_kept(mx.take_along_axis(kept, mx.argsort(order, axis=-1), axis=-1), logits)


@day.wrong(
    "1.7.3", "sums-in-float16",
    fact="float16 probabilities are summed in float16",
    question="What is 0.5 + 0.0002 in float16?",
)  # fmt: skip
def sums_in_float16(logits, p):
    if p >= 1:
        return logits
    order = mx.argsort(-logits, axis=-1)
    probabilities = mx.take_along_axis(softmax(logits, axis=-1), order, axis=-1)
    return where_kept(mx.take_along_axis(smallest_set(probabilities, p), mx.argsort(order, axis=-1), axis=-1), logits)


@day.wrong(
    "1.7.3", "zeros",
    fact="the dropped logits become 0 instead of -inf",
    question="What is the probability of a logit of 0 beside one of -2?",
)  # fmt: skip
def top_p_zeros(logits, p):
    return where_kept(keep_top_p(logits, p) > -INF, logits, 0)


@day.wrong(
    "1.7.3", "probabilities",
    fact="probabilities come back instead of logits",
    question="What does the next filter expect to be given?",
)  # fmt: skip
def top_p_probabilities(logits, p):
    return softmax(keep_top_p(logits, p).astype(mx.float32), -1).astype(logits.dtype)


@day.wrong(
    "1.7.3", "float32-result",
    fact="the result is float32 although the logits are not",
    question="Your probabilities may be float32. What should be left of the logits?",
)  # fmt: skip
def top_p_float32(logits, p):
    return keep_top_p(logits, p).astype(mx.float32)


@day.accepted("1.7.3", "row-by-row")
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


@day.accepted("1.7.3", "from-the-rarest-up")
def from_the_rarest_up(logits, p):
    """A token is dropped if it and all rarer ones have 1 - p or less between them."""
    order = mx.argsort(logits, axis=-1)
    probabilities = mx.take_along_axis(softmax(logits.astype(mx.float32), axis=-1), order, axis=-1)
    drop = (mx.cumsum(probabilities, axis=-1) <= 1 - p) & (p < 1)
    drop = drop & (mx.arange(logits.shape[-1]) < logits.shape[-1] - 1)
    return mx.put_along_axis(mx.array(logits), order, where_kept(~drop, mx.take_along_axis(logits, order, axis=-1)), -1)


# 1.7.4 min-p

RATIOS = [0.10, 0.42, 0.04, 0.25, 0.17, 0.02], [0.03, 0.08, 0.60, 0.01, 0.18, 0.10]


@day.probe("1.7.4")
def min_p_rows(program):
    logits = log_rows(*RATIOS)
    return program(logits, 0.15), program(logits, 0.5), logits


@day.probe("1.7.4")
def min_p_ends(program):
    logits = mx.array([[200.0, 1.0, -2.0, -90.0], [0.5, 0.5, -0.3, -0.4]])
    return program(logits, 0.0), program(logits, 1.0)


@day.probe("1.7.4")
def min_p_positive(program):
    return program(log_rows(*RATIOS) + mx.array([[9.0], [2.0]]), 0.3)


@day.probe("1.7.4", mx.float16)
def min_p_half(program):
    return program(log_rows(*RATIOS, dtype=mx.float16), 0.15)


def by_threshold(threshold, logits, min_p):
    """A min-p with another threshold: `threshold(probabilities, min_p)`, one for each row."""
    probabilities = softmax(logits.astype(mx.float32), axis=-1)
    return where_kept(probabilities >= threshold(probabilities, min_p), logits)


@day.wrong(
    "1.7.4", "against-one",
    fact="the probabilities are compared with min_p itself",
    question="The likeliest token has probability 0.1. What should min_p = 0.2 leave?",
)  # fmt: skip
def against_one(logits, min_p):
    return by_threshold(lambda q, m: m, logits, min_p)


@day.wrong(
    "1.7.4", "on-logits",
    fact="the logits are compared with min_p times the largest logit",
    question="What is min_p times a largest logit that is negative?",
)  # fmt: skip
def on_logits(logits, min_p):
    return where_kept(logits >= min_p * mx.max(logits, axis=-1, keepdims=True), logits)


@day.wrong(
    "1.7.4", "likeliest-of-the-batch",
    fact="the threshold of every row comes from the likeliest token of the whole batch",
    question="Which token is the likeliest of the second row?",
)  # fmt: skip
def likeliest_of_the_batch(logits, min_p):
    return by_threshold(lambda q, m: m * mx.max(q), logits, min_p)


@day.wrong(
    "1.7.4", "softmax-over-the-batch",
    fact="the softmax runs over the whole batch, and so does the maximum",
    question="What should the probabilities of one row sum to?",
)  # fmt: skip
def softmax_over_the_batch(logits, min_p):
    return keep_min_p(logits.reshape(1, -1), min_p).reshape(logits.shape)


@day.wrong(
    "1.7.4", "strictly-more",
    fact="a token exactly min_p times as likely as the likeliest is dropped",
    question="What should min_p = 1 leave?",
)  # fmt: skip
def strictly_more(logits, min_p):
    probabilities = softmax(logits.astype(mx.float32), axis=-1)
    return where_kept(probabilities > min_p * mx.max(probabilities, axis=-1, keepdims=True), logits)


@day.wrong(
    "1.7.4", "subtracted",
    fact="the threshold is the largest probability minus min_p",
    question="The likeliest token has 0.4, and min_p is 0.5. How likely is half as likely?",
)  # fmt: skip
def min_p_subtracted(logits, min_p):
    return by_threshold(lambda q, m: mx.max(q, axis=-1, keepdims=True) - m, logits, min_p)


@day.wrong(
    "1.7.4", "one-minus-min-p",
    fact="the tokens at least 1 - min_p times as likely as the likeliest are left",
    question="Does a larger min_p leave more tokens, or fewer?",
)  # fmt: skip
def one_minus_min_p(logits, min_p):
    return keep_min_p(logits, 1 - min_p)


@day.wrong(
    "1.7.4", "inverted",
    fact="the likely tokens are dropped and the rare ones left",
    question="mx.where takes its second argument where the condition is true. Which one is that?",
)  # fmt: skip
def inverted(logits, min_p):
    return where_kept(keep_min_p(logits, min_p) == -INF, logits)


@day.wrong(
    "1.7.4", "zeros",
    fact="the dropped logits become 0 instead of -inf",
    question="What is the probability of a logit of 0 beside one of -2?",
)  # fmt: skip
def min_p_zeros(logits, min_p):
    return where_kept(keep_min_p(logits, min_p) > -INF, logits, 0)


@day.wrong(
    "1.7.4", "probabilities",
    fact="probabilities come back instead of logits",
    question="What does the next step expect to be given?",
)  # fmt: skip
def min_p_probabilities(logits, min_p):
    return softmax(keep_min_p(logits, min_p).astype(mx.float32), -1).astype(logits.dtype)


@day.wrong(
    "1.7.4", "float32-result",
    fact="the result is float32 although the logits are not",
    question="Your probabilities may be float32. What should be left of the logits?",
)  # fmt: skip
def min_p_float32(logits, min_p):
    return keep_min_p(logits, min_p).astype(mx.float32)


@day.accepted("1.7.4", "in-logarithms")
def in_logarithms(logits, min_p):
    if min_p == 0:
        return logits
    return where_kept(logits - mx.max(logits, axis=-1, keepdims=True) >= math.log(min_p), logits)


@day.accepted("1.7.4", "ratios")
def ratios(logits, min_p):
    x = logits.astype(mx.float32)
    return where_kept(mx.exp(x - mx.max(x, axis=-1, keepdims=True)) >= min_p, logits)


# 1.7.5 the sampler

FIVE = [0.20, 0.10, 0.30, 0.15, 0.25]
DRAWS = 400  # a token with probability 0.05 stays away from all of them once in 800 million samplers


def ids(sample, logits, tokens):
    return sample(logits, tokens).astype(mx.int32)


def occurring(program, rows, tokens=None, draws=DRAWS, **settings):
    """Which tokens of each row of logits ever occur in the draws, rows x tokens."""
    n, size = rows.shape
    tokens = tokens or [[]] * n
    drawn = ids(program(**settings, seed=7), mx.concatenate([rows] * draws), tokens * draws).reshape(draws, n)
    return mx.any(drawn[:, :, None] == mx.arange(size), axis=0).astype(mx.int32)


@day.probe("1.7.5")
def sampler_greedy(program):
    logits, tokens = normals(51)(4, 7), [[0, 1, 2, 3], [5, 6], [], [4, 3, 2]]
    return ids(program(temp=0), logits, tokens), ids(program(temp=0.0, repetition_penalty=4.0), logits, tokens), logits


@day.probe("1.7.5")
def sampler_plain(program):
    rows = mx.concatenate([log_rows(FIVE, FIVE[::-1], shift=0), mx.array([[-20.0, 30.0, -20.0, -20.0, -20.0]])])
    return occurring(program, rows)


@day.probe("1.7.5")
def sampler_temperature(program):
    """A cold and a hot one, and hot ones under a top-p that shows how flat the row has become, and when."""
    row = log_rows([0.15, 0.50, 0.05, 0.30])
    cold = occurring(program, row, temp=0.01), occurring(program, row, temp=0.01, top_p=0.75)
    return *cold, *(occurring(program, row, temp=2.0, top_p=p) for p in (0.55, 0.75))


@day.probe("1.7.5")
def sampler_one_filter(program):
    rows = mx.concatenate([log_rows(FIVE, FIVE[::-1], shift=0), mx.array([[-9.0, 19.0, -9.0, 20.0, -9.0]])])
    settings = {"top_k": 2}, {"top_k": 9}, {"top_p": 0.5}, {"top_p": 0.0}, {"min_p": 0.6}, {"min_p": 1.0}
    return tuple(occurring(program, rows, **one) for one in settings)


@day.probe("1.7.5")
def sampler_two_filters(program):
    row = log_rows([0.2, 0.4, 0.1, 0.3])
    return occurring(program, row, top_k=2, top_p=0.55), occurring(program, row, top_p=0.55, min_p=0.6)


@day.probe("1.7.5")
def sampler_penalty_first(program):
    """Rows that differ in their tokens; top-k leaves the likeliest after the penalty."""
    rows = mx.array([[60.0, 45.0, 30.0, 0.0]] * 2)
    return occurring(program, rows, [[0, 0, 0], [1]], 100, repetition_penalty=4.0, top_k=1)


@day.probe("1.7.5")
def sampler_state(program):
    """Whether calls repeat each other that should, or should not; 1000 tokens do not agree by chance."""
    logits, tokens = normals(56)(3, 1000, spread=0.1), [[]] * 3

    def calls(sample, number=4):
        return mx.stack([ids(sample, logits, tokens) for _ in range(number)])

    mx.random.seed(561)
    alone, twin = calls(program(seed=5)), calls(program(seed=5))
    other = calls(program(seed=6))
    sample, elder = program(seed=5), program(seed=6)
    program(seed=5)
    parts = []
    for seed in range(4):
        mx.random.seed(seed)
        parts.append(calls(sample, 1))
    mx.random.seed(562)
    left_alone = mx.random.uniform(shape=(3,))
    mx.random.seed(562)
    calls(program(seed=5))
    untouched = mx.array_equal(left_alone, mx.random.uniform(shape=(3,)))
    mx.random.seed(563)
    unseeded = calls(program())
    mx.random.seed(563)
    again = calls(program())
    mx.random.seed(562)
    ids(program(temp=0), logits, tokens)
    undrawn = mx.array_equal(left_alone, mx.random.uniform(shape=(3,)))
    agree = [
        mx.array_equal(alone, twin), mx.array_equal(alone, other), mx.array_equal(alone, mx.concatenate(parts)),
        mx.array_equal(alone[0], alone[1]), untouched, mx.array_equal(unseeded, again),
        mx.array_equal(unseeded[0], unseeded[1]), undrawn, mx.array_equal(other, calls(elder)),
        mx.array_equal(calls(program(seed=0), 1), calls(program(seed=0), 1)),
    ]  # fmt: skip
    return mx.stack(agree).astype(mx.int32), mx.array(alone.shape)


def drawn_with(key, logits):
    """One token a row, with a key or with the global random state."""
    return mx.random.categorical(logits) if key is None else mx.random.categorical(logits, key=key)


def checked(make):
    """The same make_sampler, refusing what it must: a mistake has to be caught by other checks than those of errors."""

    def careful(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
        for name, value, largest in [
            ("temp", temp, INF),
            ("top_k", top_k, INF),
            ("top_p", top_p, 1),
            ("min_p", min_p, 1),
        ]:
            if value < 0 or value > largest:
                raise ValueError(f"{name} must not be {value}")
        if repetition_penalty <= 0:
            raise ValueError(f"repetition_penalty must be positive, not {repetition_penalty}")
        return make(temp, top_k, top_p, min_p, repetition_penalty, seed)

    return careful


ORDER = ("penalty", "temp", "top_k", "top_p", "min_p")


def unchecked(order=ORDER, draw=drawn_with, fresh=True, zero=-INF, greedy=True, **instead):
    """A make_sampler in steps that a mistake can replace, leave out or exchange."""

    def make(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
        steps = {
            "penalty": lambda x, tokens: (
                x if repetition_penalty == 1 else penalize_repetition(x, tokens, repetition_penalty)
            ),
            "temp": lambda x, tokens: x / temp,
            "top_k": lambda x, tokens: keep_top_k(x, top_k) if top_k else x,
            "top_p": lambda x, tokens: keep_top_p(x, top_p),
            "min_p": lambda x, tokens: keep_min_p(x, min_p) if min_p else x,
        }
        settings = {"temp": temp, "top_p": top_p}
        for name, step in instead.items():
            steps[name] = lambda x, tokens, step=step, value=settings[name]: step(x, value)
        state = [None if seed is None else mx.random.key(seed)]

        def sample(logits, tokens):
            if temp == 0 and greedy:
                return mx.argmax(steps["penalty"](logits, tokens) if "penalty" in order else logits, axis=-1)
            for name in order:
                logits = steps[name](logits, tokens)
            logits = mx.where(logits == -INF, zero, logits)
            key = state[0]
            if key is not None and fresh:
                state[0], key = mx.random.split(key)
            return draw(key, logits)

        return sample

    return make


def maker(**changes):
    """The same, refusing what it must."""
    return checked(unchecked(**changes))


def without(*names):
    return tuple(name for name in ORDER if name not in names)


def mistake(name, fact, question, **changes):
    """Register a sampler with one step changed."""
    day.wrong("1.7.5", name, fact=fact, question=question)(maker(**changes))


mistake(
    "temperature-multiplied",
    "the logits are multiplied by the temperature",
    "Does a temperature of 2 push the probabilities apart, or closer together?",
    temp=lambda x, temp: x * temp,
)
mistake(
    "temperature-left-out",
    "the temperature is not used, unless it is 0",
    "Which tokens should occur at a temperature of 0.01?",
    order=without("temp"),
)
mistake(
    "temperature-last",
    "the temperature comes after the filters",
    "Which probabilities does top-p sum: those before the division, or those after it?",
    order=(*without("temp"), "temp"),
)
mistake(
    "temperature-on-probabilities",
    "probabilities are divided by the temperature instead of logits",
    "What do probabilities sum to after a division by 2?",
    temp=lambda x, temp: softmax(x, -1) / temp,
)
mistake(
    "zero-divides",
    "the logits are divided by a temperature of 0",
    "What is 1 / 0 in float32, what is -1 / 0, and which of several infinities is the largest?",
    greedy=False,
)
mistake(
    "always-greedy",
    "the likeliest token is chosen at every temperature",
    "How often should a token with probability 0.3 be chosen?",
    draw=lambda key, x: mx.argmax(x, axis=-1),
)
mistake(
    "penalty-left-out",
    "the repetition penalty is not used",
    "Where does `tokens` go after your sampler has received it?",
    order=without("penalty"),
)
mistake(
    "penalty-last",
    "the repetition penalty comes after the filters",
    "Two tokens are left and one of them is penalized. Can the third one, by now likelier, come back?",
    order=(*without("penalty"), "penalty"),
)
mistake(
    "top-k-left-out",
    "top_k is not used",
    "Which tokens should occur with top_k = 2?",
    order=without("top_k"),
)
mistake(
    "top-p-left-out",
    "top_p is not used",
    "Which tokens should occur with a small top_p?",
    order=without("top_p"),
)
mistake(
    "min-p-left-out",
    "min_p is not used",
    "Which tokens should occur with min_p = 0.6?",
    order=without("min_p"),
)
mistake(
    "top-p-before-top-k",
    "top-p does not see what top-k has left, but all tokens",
    "Two tokens of 0.4 and 0.3 are left by top-k. What do they sum to, once the others have no probability?",
    order=("penalty", "temp", "top_p", "top_k", "min_p"),
)
mistake(
    "min-p-before-top-p",
    "min-p comes before top-p",
    "Min-p has left two tokens. Do their probabilities change, and so the sums that top-p takes?",
    order=("penalty", "temp", "top_k", "min_p", "top_p"),
)
mistake(
    "order-of-mlx-lm",
    "the order is mlx-lm's: top-p, min-p, top-k, temperature",
    "Engines differ in this. Which order does the docstring state?",
    order=("penalty", "top_p", "min_p", "top_k", "temp"),
)
mistake(
    "top-p-zero-is-off",
    "top_p = 0 is taken for off",
    "Which set is the smallest whose probabilities sum to 0 or more, if at least one token stays?",
    top_p=lambda x, p: keep_top_p(x, p) if p else x,
)
mistake(
    "zeros-for-dropped",
    "a dropped logit becomes 0 instead of -inf before the draw",
    "What is the probability of a logit of 0 beside one of -2?",
    zero=0.0,
)
mistake(
    "probabilities-for-logits",
    "mx.random.categorical is given probabilities, where it takes logits",
    "categorical does a softmax itself. What does it make of the probabilities 1 and 0?",
    draw=lambda key, x: drawn_with(key, softmax(x, -1)),
)
mistake(
    "same-key-each-call",
    "every call draws with the same key",
    "A key gives the same numbers each time. How do you get a new one for each call?",
    fresh=False,
)
mistake(
    "seed-ignored",
    "the seed is not used, and every sampler draws from MLX's global state",
    "Somebody else draws a random number between two of your calls. Which tokens come then?",
    draw=lambda key, x: mx.random.categorical(x),
)
mistake(
    "ids-as-columns",
    "the ids come as N x 1 instead of N",
    "Which shape has one id for each of N rows?",
    draw=lambda key, x: drawn_with(key, x)[:, None],
)


@day.wrong(
    "1.7.5", "seed-zero-is-none",
    fact="seed 0 counts as no seed",
    question="What does `if seed` say of 0?",
)  # fmt: skip
@checked
def seed_zero_is_none(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
    return maker()(temp, top_k, top_p, min_p, repetition_penalty, seed or None)


@day.wrong(
    "1.7.5", "global-seed",
    fact="the seed is given to MLX's global random state, once",
    question="Two samplers take turns. Whose random numbers does each of them draw?",
)  # fmt: skip
@checked
def global_seed(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
    if seed is not None:
        mx.random.seed(seed)
    return maker()(temp, top_k, top_p, min_p, repetition_penalty)


@day.wrong(
    "1.7.5", "global-seed-each-call",
    fact="every call gives the seed to MLX's global random state",
    question="What does a call draw after a state that is the same each time?",
)  # fmt: skip
@checked
def global_seed_each_call(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
    sample = maker()(temp, top_k, top_p, min_p, repetition_penalty)

    def seeded(logits, tokens):
        if seed is not None and temp > 0:
            mx.random.seed(seed)
        return sample(logits, tokens)

    return seeded


@day.wrong(
    "1.7.5", "one-key-for-all-samplers",
    fact="all samplers with a seed share one key, that of the newest seed",
    question="Where does your key live: in the function that you return, or in the module?",
)  # fmt: skip
@checked
def one_key_for_all_samplers(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
    global SHARED
    if seed is not None:
        SHARED = mx.random.key(seed)

    def draw(key, logits):
        global SHARED
        if key is None:
            return mx.random.categorical(logits)
        SHARED, now = mx.random.split(SHARED)
        return mx.random.categorical(logits, key=now)

    return maker(draw=draw)(temp, top_k, top_p, min_p, repetition_penalty, seed)


@day.wrong(
    "1.7.5", "greedy-forgets-the-penalty",
    fact="with temp = 0 the repetition penalty is not used",
    question="At temp = 0, which logits should the largest be taken of?",
)  # fmt: skip
@checked
def greedy_forgets_the_penalty(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
    return maker()(temp, top_k, top_p, min_p, 1.0 if temp == 0 else repetition_penalty, seed)


@day.wrong(
    "1.7.5", "filters-of-the-first-row",
    fact="every row is drawn from the first row's logits",
    question="Each row has tokens and logits of its own. Which of them does your draw read?",
)  # fmt: skip
@checked
def filters_of_the_first_row(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
    sample = maker()(temp, top_k, top_p, min_p, repetition_penalty, seed)
    return lambda logits, tokens: sample(mx.broadcast_to(logits[:1], logits.shape), [tokens[0]] * len(tokens))


@day.accepted("1.7.5", "gumbel")
@checked
def gumbel(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
    """The largest of the logits plus Gumbel noise; a list of keys made ahead."""
    keys = None if seed is None else iter(mx.random.split(mx.random.key(seed), 4096))

    def sample(logits, tokens):
        logits = penalize_repetition(logits, tokens, repetition_penalty)
        if temp == 0:
            return mx.argmax(logits, axis=-1)
        logits = logits * (1 / temp)
        logits = keep_top_k(logits, top_k or logits.shape[-1])
        logits = keep_min_p(keep_top_p(logits, top_p), min_p)
        noise = mx.random.gumbel(logits.shape) if keys is None else mx.random.gumbel(logits.shape, key=next(keys))
        return mx.argmax(logits + noise, axis=-1)

    return sample


@day.accepted("1.7.5", "inverse-of-the-sums")
@checked
def inverse_of_the_sums(temp=1.0, top_k=0, top_p=1.0, min_p=0.0, repetition_penalty=1.0, seed=None):
    """A uniform number for each row, looked up in the row's cumulative probabilities; the n-th call folds n in."""
    number = [0]

    def sample(logits, tokens):
        logits = penalize_repetition(logits, tokens, repetition_penalty)
        if temp == 0:
            return mx.argmax(logits, axis=-1).astype(mx.int32)
        logits = logits / temp
        if top_k > 0:
            logits = keep_top_k(logits, top_k)
        sums = mx.cumsum(softmax(keep_min_p(keep_top_p(logits, top_p), min_p), -1), axis=-1)
        number[0] += 1
        keys = {} if seed is None else {"key": mx.random.key(1000003 * (seed + 1) + number[0])}
        uniform = mx.random.uniform(shape=(len(logits), 1), **keys) * sums[:, -1:]
        return mx.argmax(sums > uniform, axis=-1).astype(mx.int32)

    return sample
