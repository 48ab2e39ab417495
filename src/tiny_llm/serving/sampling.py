"""Sampling for many requests at once: each row with the settings of its own request."""

import mlx.core as mx

from ..basics import softmax
from ..sampler import penalize_repetition
from .request import Chunk, SamplingParams


def sample_rows(logits: mx.array, chunks: list[Chunk]) -> list[list[int]]:
    """Choose the next token of each request that has come to its end.

    Args:
        logits: R x V, a row for each chunk with `scored` = 1, in the order of the chunks.
        chunks: as the model has read them; `scored` is 0 or 1.

    Returns:
        A list for each chunk: its next token, or nothing if none was asked for. It is what `make_sampler` would give
        with the params of its request; with a seed, it depends on seed, place in the text and logits alone: not on the
        other rows, and not on how often the request was begun anew.
    """
    rows = [chunk.request for chunk in chunks if chunk.scored]
    if not rows:
        return [[] for _ in chunks]
    logits = logits.astype(mx.float32)
    if any(request.params.repetition_penalty != 1 for request in rows):
        seen = [request.tokens(0, request.length) for request in rows]
        penalties = _column(request.params.repetition_penalty for request in rows)
        logits = penalize_repetition(logits, seen, penalties)  # type: ignore[arg-type]
    chosen = mx.argmax(logits, axis=-1)
    if any(request.params.temp for request in rows):
        kept = filtered(logits, [request.params for request in rows])
        drawn = mx.argmax(kept + noise([(request.params.seed, len(request.output)) for request in rows], kept.shape[1]), -1)
        chosen = mx.where(mx.array([request.params.temp > 0 for request in rows]), drawn, chosen)
    tokens = iter(chosen.tolist())
    return [[next(tokens)] if chunk.scored else [] for chunk in chunks]


def filtered(logits: mx.array, params: list[SamplingParams]) -> mx.array:
    """Temperature, top-k, top-p and min-p, each row with its own; what is ruled out is -inf. R x V, float32."""
    size = logits.shape[-1]
    logits = logits / _column(each.temp or 1 for each in params)
    if any(each.top_k for each in params):
        k = mx.array([[min(each.top_k, size) or size] for each in params])  # R x 1
        threshold = mx.take_along_axis(mx.sort(logits, axis=-1), size - k, axis=-1)
        logits = mx.where(logits >= threshold, logits, -mx.inf)
    if any(each.top_p < 1 for each in params):
        order = mx.argsort(-logits, axis=-1)  # the likeliest token first
        likely = mx.take_along_axis(softmax(logits, axis=-1), order, axis=-1)
        before = mx.cumsum(likely, axis=-1, inclusive=False)  # the probability of all likelier tokens
        top_p = _column(each.top_p if each.top_p < 1 else mx.inf for each in params)
        kept = (before < top_p) | (mx.arange(size) == 0)
        logits = mx.where(mx.take_along_axis(kept, mx.argsort(order, axis=-1), axis=-1), logits, -mx.inf)
    if any(each.min_p for each in params):
        likely = softmax(logits, axis=-1)
        least = _column(each.min_p for each in params) * mx.max(likely, axis=-1, keepdims=True)
        logits = mx.where(likely >= least, logits, -mx.inf)
    return logits


def noise(seeds: list[tuple[int | None, int]], size: int) -> mx.array:
    """Gumbel noise, R x size: the largest of logits plus noise is a draw with the logits' probabilities.

    Args:
        seeds: for each row a seed and a place in its text, which together are the key; without a seed it is any.
        size: of a row.
    """
    fresh = mx.random.randint(0, 2**31 - 1, (len(seeds),)).tolist() if any(s is None for s, _ in seeds) else []
    keys = [[fresh[row] if seed is None else seed % 2**32, at] for row, (seed, at) in enumerate(seeds)]
    return mx.stack([mx.random.gumbel((size,), key=mx.array(key, mx.uint32)) for key in keys])


def _column(numbers: object) -> mx.array:
    return mx.array([[number] for number in numbers], mx.float32)  # type: ignore[attr-defined]
