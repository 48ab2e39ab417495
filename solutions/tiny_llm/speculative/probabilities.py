"""Probabilities of next tokens, and the uniform samples that select one of them."""

import mlx.core as mx
import numpy as np

from ..basics import softmax
from ..sampler import penalize_repetition
from ..serving.request import SamplingParams
from ..serving.sampling import apply_filters

DRAFT, VERIFY = 1, 2  # what a uniform sample is for: the two must never share one


def probabilities(logits: mx.array, params: list[SamplingParams], seen: list[list[int]]) -> mx.array:
    """Return the distribution that each row's next token is sampled from, with its request's sampling params applied.

    Args:
        logits: R x V.
        params: of each row: repetition penalty, temperature, top-k, top-p and min-p, applied in this order.
        seen: the tokens before each row's, for the penalty.

    Returns:
        R x V, float32, each row sums to 1. Where temp is 0, the most likely token has probability 1.
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
    return mx.where(drawn, softmax(apply_filters(logits, params), axis=-1), likeliest)


def uniforms(seed: int | None, position: int, count: int, purpose: int) -> list[float]:
    """Return uniform samples from [0, 1). With a seed, they depend on these arguments alone.

    Args:
        seed: of a request.
        position: in its output, from 0: that of the token to be sampled, or of the first one to be verified.
        count: how many samples.
        purpose: DRAFT or VERIFY.
    """
    key = None
    if seed is not None:
        key = mx.random.split(mx.array([seed % 2**32, position], mx.uint32), 3)[purpose]
    return mx.random.uniform(shape=(count,), key=key).tolist()  # type: ignore[return-value]


def sample_from(probs: mx.array, u: float) -> int:
    """Return the first token at which the cumulative probability exceeds u.

    Args:
        probs: V, sums to 1. If rounding leaves the sum at or below u, the last token with more than 0 is returned.
        u: a uniform sample from [0, 1).
    """
    sums = np.cumsum(np.array(probs), dtype=np.float64)
    return int(np.searchsorted(sums, min(u, np.nextafter(sums[-1], 0)), side="right"))
