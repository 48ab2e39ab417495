"""Perplexity: the quality measure for a quantized model."""

from collections.abc import Sequence

from ..qwen3_cached.model import Qwen3CachedModel


def perplexity(model: Qwen3CachedModel, texts: Sequence[Sequence[int]]) -> float:
    """Return the model's perplexity on some texts: exp of the mean of -log p.

    p is the probability that the model assigns to a token, given the tokens before it in its text. The mean is over all
    tokens of all texts except the first token of each, which has no context. So a long text counts for more than a
    short one.

    Args:
        model: called with tokens, 1 x L, and `all_positions=True`, it returns logits, 1 x L x V, in any float dtype. It
            gets each text once.
        texts: the tokens of each. Texts with fewer than two are skipped.

    Returns:
        A Python float: 1 if each token is certain, V if all are always equally likely, inf if a token has probability
        zero. Neither large logits nor a perplexity above the largest float32 overflow.

    Raises:
        ValueError: no text has two tokens.
    """
    raise NotImplementedError("2.3.8 Perplexity")
