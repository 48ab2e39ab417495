"""Capacity planning: the smallest fleet that meets a latency goal, and what a fleet serves within it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from .jobs import Outcome


class Goal(NamedTuple):
    """A latency goal of one request; seconds."""

    first: float  # time to first token (TTFT): at most this
    per_token: float  # time per output token (TPOT): at most this

    def met_by(self, outcome: Outcome) -> bool:
        """Return whether a request met the goal. One that was rejected or lost did not."""
        if outcome.end is None or outcome.first is None:
            return False
        decoding = outcome.end - outcome.first
        return outcome.first - outcome.arrival <= self.first and decoding <= self.per_token * (outcome.tokens - 1)


def goodput(outcomes: Sequence[Outcome], goal: Goal) -> float:
    """Return the requests per second that met the goal, from the first arrival to the last token."""
    good, begun = sum(map(goal.met_by, outcomes)), min(outcome.arrival for outcome in outcomes)
    last = max((outcome.end for outcome in outcomes if outcome.end is not None), default=begun)
    return good / (last - begun) if last > begun else 0.0


def replicas_needed(
    run: Callable[[int, int], Sequence[Outcome]], goal: Goal, most: int, *, seeds: Sequence[int], share: float = 0.95
) -> int | None:
    """Return the smallest number of replicas with which at least `share` of all requests meet the goal.

    One run is noisy: with another seed, the same fleet may pass or fail. So the requests of all seeds count together,
    rejected and lost ones included, and every number of replicas gets the same seeds. If more replicas are always
    better, the result is the smallest sufficient number. Otherwise it is a sufficient number such that one replica
    fewer is not sufficient.

    A run is expensive. No run is repeated, and at most 2 + 2 log2(most) numbers are tried: for example, doubled from 1
    until one is sufficient, and then by halving the interval.

    Args:
        run: simulates a number of replicas with a seed: run(replicas, seed).
        goal: the goal of each request.
        most: the largest number to try; at least 1.
        seeds: at least one.
        share: of all requests; more than 0, at most 1.

    Returns:
        The number, 1 to `most`; None if not even `most` replicas are sufficient.
    """
    raise NotImplementedError("6.5.3 Capacity planning")
