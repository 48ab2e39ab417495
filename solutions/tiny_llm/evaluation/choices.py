"""Multiple choice by likelihood: how probable a model finds each choice after the prompt."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import mlx.core as mx


class ChoiceScores(NamedTuple):
    """The log-likelihoods of C choices in nats, three times: float32 arrays with C entries. The highest is best."""

    total: mx.array  # the sum over a choice's tokens
    per_token: mx.array  # the sum, divided by the number of tokens it covers
    per_byte: mx.array  # the sum, divided by the number of the choice's UTF-8 bytes


def score_choices(
    logits: Callable[[mx.array], mx.array],
    encode: Callable[[str], list[int]],
    prompt: str,
    choices: Sequence[str],
) -> ChoiceScores:
    """Return the log-likelihood of each choice, given the prompt.

    A choice is tokenized together with the prompt, as `encode(prompt + choice)`, because a token may span the boundary.
    The tokens at the beginning that the prompt alone and all prompts with a choice have in common are the context. The
    score of a choice is the sum of the log-probabilities of its row's tokens after the context, each given all tokens
    before it.

    Args:
        logits: a model: takes token ids, 1 x L, and returns next-token logits for every position, 1 x L x V, of any
            float dtype. It is called once per choice.
        encode: converts text to token ids, as `ByteLevelBPE.encode`.
        prompt: the text that all choices follow.
        choices: C texts. A leading space is part of a choice.

    Returns:
        total, per_token and per_byte, each float32 with C entries, in the order of the choices. Log-probabilities are
        computed and summed in float32 for all dtypes of the logits.

    Raises:
        ValueError: there are no choices; a choice is empty (the message states its index); or there is no context, so
            that nothing precedes the first token to be scored.

    Source: Brown et al. 2020, section 2.4; lm-eval's `multiple_choice`, whose `acc` takes the highest total and whose
    `acc_norm` the highest total per character.
    """
    if not choices:
        raise ValueError("there are no choices")
    if "" in choices:
        raise ValueError(f"choice {list(choices).index('')} is empty")
    rows = [encode(prompt + choice) for choice in choices]
    shared = _common_prefix([encode(prompt), *rows])
    if not shared:
        raise ValueError("the prompt and the choices have no first token in common, so nothing precedes the choices")
    sums = []
    for row in rows:
        scores = logits(mx.array([row]))[0, shared - 1 : -1].astype(mx.float32)  # T x V: each predicts the next token
        chosen = mx.take_along_axis(scores, mx.array(row[shared:])[:, None], axis=-1)[:, 0]  # T
        sums.append(mx.sum(chosen - mx.logsumexp(scores, axis=-1)))
    total = mx.stack(sums)  # C
    tokens = mx.array([len(row) - shared for row in rows])
    sizes = mx.array([len(choice.encode()) for choice in choices])
    return ChoiceScores(total, total / tokens, total / sizes)


def _common_prefix(rows: list[list[int]]) -> int:
    """Return how many tokens at the beginning are the same in all rows."""
    shared = 0
    for tokens in zip(*rows, strict=False):
        if len({*tokens}) > 1:
            break
        shared += 1
    return shared
