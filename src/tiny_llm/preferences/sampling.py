"""Samples for training: groups of completions from the serving engine, with the sampler's log-probabilities."""

import dataclasses
from collections.abc import Callable, Collection, Sequence

from ..serving.sampling import sample_rows
from ..serving.scheduler import Scheduler
from ..serving.step import Sampler


@dataclasses.dataclass(frozen=True)
class Completion:
    """A sampled completion. Given."""

    prompt: list[int]
    tokens: list[int]  # what was sampled, with the end token if there is one
    logprobs: list[float]  # of each of them, when it was sampled
    ended: bool  # whether the last token is an end token: otherwise max_tokens cut it off


def sample_groups(
    new_scheduler: Callable[[Sampler], Scheduler],
    prompts: Sequence[list[int]],
    group_size: int,
    temp: float,
    max_tokens: int,
    eos_ids: Collection[int],
    seed: int,
) -> list[list[Completion]]:
    """Sample a group of completions of each prompt, all of them in one run of the scheduler.

    Args:
        new_scheduler: called once; returns a scheduler with no requests that uses the sampler it is given.
        prompts: P of them, each with at least one token.
        group_size: G, the completions of each prompt.
        temp: the temperature, above 0.
        max_tokens: of a completion, the end token included.
        eos_ids: the end tokens.
        seed: completion g of prompt i is sampled with the seed `seed + i * G + g`, so that all differ.

    Returns:
        P lists of G completions, in the order of the prompts and of the seeds. Tokens are those of `sample_rows`. A
        sampled end token belongs to its completion: without it, the model would not learn to stop. The log-probability
        of a token is that with which it was sampled, log softmax(logits / temp), computed in float32.

    Raises:
        ValueError: temp is not positive, or group_size is less than 1. The message states the number.
    """
    raise NotImplementedError("5.6.5 Samples from your engine")
