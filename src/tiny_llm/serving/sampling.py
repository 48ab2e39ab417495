"""Sampling for many requests at once: each row with its own request's parameters."""

from collections.abc import Iterable

import mlx.core as mx

from ..basics import softmax
from .request import Chunk, Request, SamplingParams


def sample_rows(logits: mx.array, chunks: list[Chunk]) -> list[list[int]]:
    """Sample the next token of each request whose tokens are all computed.

    Args:
        logits: R x V, a row for each chunk with `num_logits` = 1, in the order of the chunks.
        chunks: as the model computed them; `num_logits` is 0 or 1.

    Returns:
        A list for each chunk: its next token, or nothing if `num_logits` is 0. With a temp of 0 it is the most likely
        token. Otherwise it is sampled with the probabilities that `make_sampler` uses, given the params of the chunk's
        request: the argmax of `apply_filters` plus `gumbel_noise`, whose key is made of params.seed and the length of
        the output. So a sample depends on seed, position and logits alone, not on the other rows, nor on how often the
        request was preempted. All is computed in float32; no noise is generated for a batch that is all greedy.
    """
    raise NotImplementedError("3.1.3 Sampling with per-request settings")


def apply_repetition_penalty(logits: mx.array, rows: list[Request]) -> mx.array:
    """Apply each request's repetition penalty to its row, for the tokens of its prompt and output. R x V."""
    if all(one.params.repetition_penalty == 1 for one in rows):
        return logits
    used = mx.zeros(logits.shape, mx.bool_)
    for row, one in enumerate(rows):
        if one.params.repetition_penalty != 1:
            used[row, mx.array(one.tokens(0, one.num_tokens))] = True
    penalty = _column(one.params.repetition_penalty for one in rows)
    return mx.where(used, mx.where(logits > 0, logits / penalty, logits * penalty), logits)


def apply_filters(logits: mx.array, params: list[SamplingParams]) -> mx.array:
    """Apply each row's own temperature, top-k, top-p and min-p, in this order, as `make_sampler` does.

    Args:
        logits: R x V, float32.
        params: R of them. A temp of 0 counts as 1.

    Returns:
        R x V, with -inf for excluded tokens.
    """
    size = logits.shape[-1]
    logits = logits / _column(each.temp or 1 for each in params)
    if most := max(min(each.top_k, size) for each in params):
        best = mx.sort(mx.topk(logits, most, axis=-1), axis=-1)  # R x most, the largest one last
        places = mx.array([[most - (min(each.top_k, size) or 1)] for each in params])
        threshold = mx.take_along_axis(best, places, axis=-1)  # R x 1: each row's k-th largest
        off = mx.array([[each.top_k == 0] for each in params])
        logits = mx.where(off | (logits >= threshold), logits, -mx.inf)
    if any(each.top_p < 1 for each in params):
        order = mx.argsort(-logits, axis=-1)  # the most likely token first
        likely = mx.take_along_axis(softmax(logits, axis=-1), order, axis=-1)
        before = mx.cumsum(likely, axis=-1, inclusive=False)  # the probability of all more likely tokens
        top_p = _column(each.top_p if each.top_p < 1 else mx.inf for each in params)
        kept = (before < top_p) | (mx.arange(size) == 0)
        logits = mx.where(mx.put_along_axis(kept, order, kept, axis=-1), logits, -mx.inf)
    if any(each.min_p for each in params):
        likely = softmax(logits, axis=-1)
        least = _column(each.min_p for each in params) * mx.max(likely, axis=-1, keepdims=True)
        logits = mx.where(likely >= least, logits, -mx.inf)
    return logits


def gumbel_noise(seeds: list[tuple[int | None, int]], size: int) -> mx.array:
    """Return Gumbel noise: the argmax of logits plus noise is a sample with the logits' softmax probabilities.

    Args:
        seeds: for each row a seed and an index, which together make its key. Without a seed the key is random.
        size: of a row.

    Returns:
        R x size, float32, each row from its own key alone.
    """
    keys = mx.array([[(seed or 0) % 2**32, number] for seed, number in seeds], mx.uint32)  # R x 2
    if any(seed is None for seed, _ in seeds):
        fresh = mx.random.randint(0, 2**31 - 1, keys.shape).astype(mx.uint32)
        keys = mx.where(mx.array([[seed is None] for seed, _ in seeds]), fresh, keys)
    return mx.vmap(lambda key: mx.random.gumbel((size,), key=key))(keys)


def _column(numbers: Iterable[float]) -> mx.array:
    return mx.array([[number] for number in numbers], mx.float32)  # R x 1
