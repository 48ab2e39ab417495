"""Synthetic load: arrival times, prompts and output lengths."""

import dataclasses
import random
from collections.abc import Sequence

from ...checkpoints.held_out import shipped_stories
from ...engine.serving import ServingEngine

SHARED = 192  # tokens of the prefix that half of the requests share
OWN = (8, 64)  # unshared prompt tokens: minimum, maximum
WRITTEN = (4, 64, 256)  # output tokens: minimum, mean, maximum (shifted exponential)


@dataclasses.dataclass(frozen=True)
class Arrival:
    """One request."""

    at: float  # seconds, or steps, after the first
    prompt: tuple[int, ...]
    max_tokens: int


@dataclasses.dataclass(frozen=True)
class Load:
    """The size and rate of a load."""

    requests: int = 32
    rate: float | None = None  # requests per second, Poisson arrivals; None: all at once
    shared: int = SHARED
    seed: int = 1


def arrivals(serving: ServingEngine, load: Load) -> list[Arrival]:
    """Return the requests in order of arrival, the same for a seed: prompts from stories, half with a shared prefix."""
    draw, (shortest, mean, longest) = random.Random(load.seed), WRITTEN
    with serving.learners_code():
        text = serving.tokenizer.encode("\n\n".join(shipped_stories()))
    most = min(serving.context_length, 1 << 20) - WRITTEN[2] - OWN[1]
    shared = text[: min(load.shared, most, len(text) // 2)]
    found, now = [], 0.0
    for number in range(load.requests):
        count = draw.randint(*OWN)
        begin = draw.randrange(len(shared), max(len(shared) + 1, len(text) - count))
        own = text[begin : begin + count] or text[:1]
        prompt = [*shared, *own] if number % 2 else own
        written = min(longest, shortest + round(draw.expovariate(1 / (mean - shortest))))
        found.append(Arrival(now, tuple(prompt), written))
        if load.rate:
            now += draw.expovariate(load.rate)
    return found


def tokens_of(found: Sequence[Arrival]) -> tuple[int, int]:
    """Return the total prompt tokens and output tokens."""
    return sum(len(arrival.prompt) for arrival in found), sum(arrival.max_tokens for arrival in found)
