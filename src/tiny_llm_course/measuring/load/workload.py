"""What a load is made of: when each request comes, what it asks, and how long its answer is to be."""

import dataclasses
import random
from collections.abc import Sequence

from ...checkpoints.held_out import shipped_stories
from ...engine.serving import ServingEngine

SHARED = 192  # tokens of a prefix that half of the requests begin with
OWN = (8, 64)  # tokens of a prompt that nobody shares: from, to
WRITTEN = (4, 64, 256)  # tokens of an answer: at least, on average, at most; most are short and a few are long


@dataclasses.dataclass(frozen=True)
class Arrival:
    """One request."""

    at: float  # seconds, or steps, after the first
    prompt: tuple[int, ...]
    max_tokens: int


@dataclasses.dataclass(frozen=True)
class Load:
    """How much comes, and how fast."""

    requests: int = 32
    rate: float | None = None  # requests a second, as a Poisson process has them; None: all at once
    shared: int = SHARED
    seed: int = 1


def arrivals(serving: ServingEngine, load: Load) -> list[Arrival]:
    """The requests of a load, in the order in which they come; the same for the same seed.

    Their words are those of the stories that come with the course. Half of them begin alike.
    """
    draw = random.Random(load.seed)
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
        found.append(Arrival(now, tuple(prompt), _written(draw)))
        if load.rate:
            now += draw.expovariate(load.rate)
    return found


def _written(draw: random.Random) -> int:
    least, mean, most = WRITTEN
    return min(most, least + round(draw.expovariate(1 / (mean - least))))


def tokens_of(found: Sequence[Arrival]) -> tuple[int, int]:
    """How many tokens are to be read, and how many written."""
    return sum(len(arrival.prompt) for arrival in found), sum(arrival.max_tokens for arrival in found)
