"""Probabilities of next tokens, and the numbers with which one of them is drawn."""

import mlx.core as mx
import numpy as np

from ..basics import softmax
from ..sampler import penalize_repetition
from ..serving.request import SamplingParams
from ..serving.sampling import filtered

DRAFTING, JUDGING = 1, 2  # who draws: the two must never share a number


def probabilities(logits: mx.array, params: list[SamplingParams], seen: list[list[int]]) -> mx.array:
    """What the next token of each row is drawn with, after all that its request has asked for.

    Args:
        logits: R x V.
        params: of each row: repetition penalty, temperature, top-k, top-p and min-p, in this order.
        seen: the tokens in front of each row, for the penalty.

    Returns:
        R x V, float32, each row sums to 1. Where temp is 0, the likeliest token has all.
    """
    logits = logits.astype(mx.float32)
    if any(each.repetition_penalty != 1 for each in params):
        rows = list(logits[:, None])  # 1 x V each
        for i, each in enumerate(params):
            if each.repetition_penalty != 1:
                rows[i] = penalize_repetition(rows[i], [seen[i]], each.repetition_penalty)
        logits = mx.concatenate(rows)
    likeliest = mx.arange(logits.shape[1]) == mx.argmax(logits, axis=-1, keepdims=True)
    if not any(each.temp for each in params):
        return likeliest.astype(mx.float32)
    drawn = mx.array([[each.temp > 0] for each in params])  # R x 1
    return mx.where(drawn, softmax(filtered(logits, params), axis=-1), likeliest)


def uniforms(seed: int | None, place: int, count: int, purpose: int) -> list[float]:
    """Numbers from 0 to below 1. With a seed, they depend on these arguments alone.

    Args:
        seed: of a request.
        place: in its output, from 0: that of the token that is drawn, or of the first one that is judged.
        count: how many numbers.
        purpose: DRAFTING or JUDGING.
    """
    key = None
    if seed is not None:
        key = mx.random.split(mx.array([seed % 2**32, place], mx.uint32), 3)[purpose]
    return mx.random.uniform(shape=(count,), key=key).tolist()  # type: ignore[return-value]


def pick(row: mx.array, draw: float) -> int:
    """The first token at which the running sum of probabilities exceeds a number drawn from 0 to 1.

    Args:
        row: V, sums to 1. If rounding leaves the sum at or below the number, it is the last token with more than 0.
        draw: from 0 to below 1.
    """
    sums = np.cumsum(np.array(row), dtype=np.float64)
    return int(np.searchsorted(sums, min(draw, np.nextafter(sums[-1], 0)), side="right"))
