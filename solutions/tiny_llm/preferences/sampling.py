"""Samples for training: groups of completions from the serving engine, with the sampler's log-probabilities."""

import dataclasses
from collections.abc import Callable, Collection, Sequence

import mlx.core as mx

from ..serving.request import Chunk, Request, SamplingParams
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
    if not temp > 0:
        raise ValueError(f"temp is {temp}, but a positive number is needed: a group needs different samples")
    if group_size < 1:
        raise ValueError(f"group_size is {group_size}, but at least 1 is needed")
    recorded: dict[Request, list[tuple[int, float]]] = {}

    def sample(logits: mx.array, chunks: list[Chunk]) -> list[list[int]]:
        sampled = sample_rows(logits, chunks)
        rows = [(chunk.request, new[0]) for chunk, new in zip(chunks, sampled, strict=True) if new]
        if rows:
            wide = logits.astype(mx.float32) / temp  # R x V
            labels = mx.array([token for _, token in rows])
            chosen = mx.take_along_axis(wide, labels[:, None], axis=-1).squeeze(-1) - mx.logsumexp(wide, axis=-1)
            found: list[float] = chosen.tolist()  # type: ignore[assignment] # one transfer for all
            for (request, token), logprob in zip(rows, found, strict=True):
                recorded[request].append((token, logprob))
        return sampled

    scheduler = new_scheduler(sample)
    groups: list[list[Request]] = []
    for i, prompt in enumerate(prompts):
        seeds = range(seed + i * group_size, seed + (i + 1) * group_size)
        groups.append([Request(prompt, max_tokens, SamplingParams(temp, seed=s), eos_ids) for s in seeds])
    for request in (request for group in groups for request in group):
        recorded[request] = []
        scheduler.submit(request)
    while scheduler.running or scheduler.waiting:
        scheduler.step()
    return [[_completion(request, recorded[request]) for request in group] for group in groups]


def _completion(request: Request, recorded: list[tuple[int, float]]) -> Completion:
    """Return what was recorded of a finished request."""
    tokens, logprobs = [token for token, _ in recorded], [logprob for _, logprob in recorded]
    return Completion(request.prompt, tokens, logprobs, request.finish_reason == "stop")
