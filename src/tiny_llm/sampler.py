"""Sampling: choosing one token per row from the logits."""

from collections.abc import Callable

import mlx.core as mx

from .basics import softmax


def penalize_repetition(logits: mx.array, tokens: list[list[int]], penalty: float) -> mx.array:
    """Make the tokens that a row has already used less likely.

    Args:
        logits: N x V. It is not changed.
        tokens: for each of the N rows, the tokens so far, in any order and number. They are not changed.
        penalty: positive logits of used tokens are divided by it, negative ones multiplied; 1 changes nothing.

    Returns:
        N x V, in logits' dtype.

    Source: Keskar et al. 2019, section 4.1.
    """
    raise NotImplementedError("1.7.1 Repetition penalty")


def keep_top_k(logits: mx.array, k: int) -> mx.array:
    """Keep the k largest logits of each row, and those equal to the k-th; the others become -inf.

    Args:
        logits: N x V. It is not changed.
        k: at least 1; V or more keeps all.

    Returns:
        N x V, in logits' dtype.

    Source: Fan et al. 2018.
    """
    raise NotImplementedError("1.7.2 Top-k")


def keep_top_p(logits: mx.array, p: float) -> mx.array:
    """Keep the smallest set of most likely tokens whose probabilities sum to p or more; the others become -inf.

    The token that crosses p is kept, so at least one token is.

    Args:
        logits: N x V, not changed; -inf has probability 0. Probabilities and their sums are float32 for all dtypes.
        p: from 0 to 1; 1 keeps all.

    Returns:
        N x V, in logits' dtype.

    Source: Holtzman et al. 2020 (nucleus sampling).
    """
    raise NotImplementedError("1.7.3 Top-p")


def keep_min_p(logits: mx.array, min_p: float) -> mx.array:
    """Keep the tokens at least min_p times as likely as the most likely one; the others become -inf.

    Args:
        logits: N x V. It is not changed. Probabilities are computed in float32 for all dtypes.
        min_p: from 0, which keeps all, to 1.

    Returns:
        N x V, in logits' dtype.

    Source: Nguyen et al. 2024.
    """
    raise NotImplementedError("1.7.4 Min-p")


def make_sampler(
    temp: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    seed: int | None = None,
) -> Callable[[mx.array, list[list[int]]], mx.array]:
    """Return a function that chooses the next token of each row.

    It applies repetition penalty, temperature, top-k, top-p and min-p, in this order, each to the previous result; then
    it samples one token per row, independently of the other rows, from the remaining probabilities.

    Args:
        temp: divides the logits; 0 means the most likely token, without sampling.
        top_k: 0 means off.
        top_p: 1 means off.
        min_p: 0 means off.
        repetition_penalty: 1 means off.
        seed: the same seed gives the same tokens for the same logits, call by call, whatever else uses random numbers,
            and leaves MLX's global random state unchanged; None uses that state.

    Returns:
        A function of logits, N x V, and of each row's tokens so far, that returns N token ids.

    Raises:
        ValueError: temp < 0, top_k < 0, top_p or min_p outside 0 to 1, or repetition_penalty <= 0; the message names
            the argument.

    Source: `mlx_lm.sample_utils.make_sampler` (which applies the filters in a different order), `transformers`.
    """
    raise NotImplementedError("1.7.5 The sampler")
