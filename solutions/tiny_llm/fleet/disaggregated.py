"""Disaggregated serving: some replicas only prefill, and hand the KV cache to others, which only decode."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from .jobs import Job, Outcome, first_token_only
from .replica import TOKEN, SimulatedReplica
from .simulation import Choose, simulate


class Link(NamedTuple):
    """The network between replicas: a transfer takes latency + bytes / bandwidth."""

    latency: float  # seconds
    bandwidth: float  # bytes per second
    token_bytes: int  # of one token's keys and values, in all layers

    def seconds(self, tokens: int) -> float:
        """Return the time that the keys and values of a prompt take."""
        return self.latency + tokens * self.token_bytes / self.bandwidth


def disaggregate(
    jobs: Sequence[Job],
    prefill: Sequence[SimulatedReplica],
    decode: Sequence[SimulatedReplica],
    choose: Choose,
    link: Link,
) -> list[Outcome]:
    """Simulate prefill replicas, and then the decode replicas, to which each request moves after its first token.

    No prefill replica waits for a decode replica, so two simulations, one after the other, give the same result as
    one. The outcome's `replica` is the last one, its `attempts` are those of both.
    """
    firsts = simulate([first_token_only(job) for job in jobs], prefill, choose)
    moved = [n for n, outcome in enumerate(firsts) if outcome.end is not None and jobs[n].max_tokens > 1]
    handed = [
        Job(
            (firsts[n].end or 0.0) + link.seconds(len(jobs[n].prompt)),
            (*jobs[n].prompt, TOKEN),
            jobs[n].max_tokens - 1,
            len(jobs[n].prompt),
        )
        for n in moved
    ]
    found = [replace(first, tokens=job.max_tokens) for first, job in zip(firsts, jobs, strict=True)]
    for n, outcome in zip(moved, simulate(handed, decode, choose), strict=True):
        attempts = found[n].attempts + outcome.attempts
        found[n] = replace(found[n], end=outcome.end, replica=outcome.replica or found[n].replica, attempts=attempts)
    return found
