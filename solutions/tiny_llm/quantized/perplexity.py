"""How well a model predicts texts: what a smaller model is judged by."""

import math
from collections.abc import Sequence

import mlx.core as mx

from ..qwen3_cached.model import Qwen3CachedModel


def perplexity(model: Qwen3CachedModel, texts: Sequence[Sequence[int]]) -> float:
    """Say among how many equally likely tokens the model is, on average, as unsure as it is among all.

    It is exp of the mean of -log p, where p is the probability that the model gives to a token after those before it in
    its text. The mean is over all tokens of all texts but the first token of each, which nothing stands before. So a
    long text counts for more than a short one.

    Args:
        model: called with tokens, 1 x L, and `all_positions=True`, it gives logits, 1 x L x V, in any float dtype.
        texts: the tokens of each. Those with fewer than two are left out.

    Returns:
        A Python float: 1 if each token is certain, V if all are always equally likely, inf if a token is impossible.
        Logits of any size give the right number.

    Raises:
        ValueError: no text has two tokens.
    """
    losses = []  # of each text, L - 1
    for text in texts:
        if len(text) < 2:
            continue
        logits = model(mx.array([list(text[:-1])]), all_positions=True)[0].astype(mx.float32)  # L - 1 x V
        right = mx.take_along_axis(logits, mx.array(list(text[1:]))[:, None], axis=-1)[:, 0]
        losses.append(mx.logsumexp(logits, axis=-1) - right)
    if not losses:
        raise ValueError("no text has two tokens, so there is nothing to predict")
    mean = float(mx.mean(mx.concatenate(losses)))
    return math.exp(mean) if mean < 700 else math.inf  # exp of more is past the largest float
