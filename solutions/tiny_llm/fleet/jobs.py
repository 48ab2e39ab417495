"""Requests of a simulated load, and what became of each. Nothing here is yours to write."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

BLOCK = 16  # tokens of a prompt that share one hash: a page


@dataclass(frozen=True)
class Job:
    """One request: when it arrives, and how much work it is."""

    arrival: float  # seconds
    prompt: tuple[int, ...]
    max_tokens: int  # the output has exactly as many
    cached: int = 0  # prompt tokens whose keys and values arrive with the request, from a prefill replica

    @cached_property
    def blocks(self) -> list[int]:
        """The hash of each whole block of the prompt, in order; it covers the block and all before it."""
        hashes, previous = list[int](), 0
        for at in range(0, len(self.prompt) - BLOCK + 1, BLOCK):
            previous = hash((previous, self.prompt[at : at + BLOCK]))
            hashes.append(previous)
        return hashes


@dataclass
class Outcome:
    """What became of one request; times in seconds of the simulated clock."""

    arrival: float
    tokens: int  # of the output
    first: float | None = None  # when its first token came
    end: float | None = None  # when its last token came; None if it was rejected or lost
    replica: str = ""  # the last replica that it was sent to; "" if no replica took it
    attempts: int = 0  # how many replicas it was sent to


class Failure(NamedTuple):
    """A replica that dies at one time, with all its requests, and is back at another, with empty caches."""

    at: float
    replica: str  # its name
    until: float


class Traffic(NamedTuple):
    """The distributions of a load. Times between arrivals and output lengths are exponential, prompts uniform."""

    rate: float  # requests per second
    requests: int
    prompt: tuple[int, int] = (16, 128)  # own tokens of a prompt: minimum, maximum
    output: float = 32.0  # mean number of output tokens
    longest: int = 256  # maximum number of output tokens
    prefixes: int = 0  # how many different prefixes requests begin with; prefix k is chosen with weight 1 / (k + 1)
    shared: int = 256  # tokens of a prefix
    burst: int = 1  # requests that arrive at a time


def arrivals(traffic: Traffic, seed: int = 0) -> list[Job]:
    """Return a load's requests in order of arrival, the same for a seed.

    With one seed, another rate only stretches the time between the same requests.
    """
    draw, found, now = random.Random(seed), list[Job](), 0.0
    weights = [1 / (k + 1) for k in range(traffic.prefixes)]
    for number in range(traffic.requests):
        if number % traffic.burst == 0:
            now += draw.expovariate(1.0) * traffic.burst / traffic.rate
        own = draw.randint(*traffic.prompt)
        output = min(traffic.longest, 1 + round(draw.expovariate(1.0) * (traffic.output - 1)))
        prefix = draw.choices(range(traffic.prefixes), weights)[0] if weights else 0
        begins = range(1_000_000 * (prefix + 1), 1_000_000 * (prefix + 1) + traffic.shared) if weights else ()
        tokens = range(-1000 * number - 1, -1000 * number - 1 - own, -1)  # no two requests share them
        found.append(Job(now, (*begins, *tokens), output))
    return found


def failures(names: Sequence[str], rate: float, until: float, repair: float, seed: int = 0) -> list[Failure]:
    """Return failures of replicas up to a time: each dies `rate` times a second on average, and is repaired."""
    draw, found = random.Random(seed), list[Failure]()
    for name in names:
        now = draw.expovariate(rate) if rate else until
        while now < until:
            found.append(Failure(now, name, now + repair))
            now += repair + draw.expovariate(rate)
    return found


def first_token_only(job: Job) -> Job:
    """Return the job of a prefill replica: the prompt, and one token."""
    return replace(job, max_tokens=1)
