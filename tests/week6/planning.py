"""Fleets for task 6.5.3 whose outcomes are known without a simulation."""

import random
from typing import Any


def outcome(make, goal, good, kind=0):
    """Return an outcome that meets a goal, or does not, in one of several ways."""
    first = 1.0 + goal.first * (0.5 if good else (2.0, 0.5, 2.0)[kind % 3])
    tokens, pace = 5, goal.per_token * (0.5 if good or kind % 3 == 0 else 2.0)
    found = make(1.0, tokens, first, first + pace * (tokens - 1), "r0", 1)
    if not good and kind % 4 == 3:
        found.first = found.end = None
        found.replica, found.attempts = "", 0
    elif not good and kind % 5 == 4:
        found.end = None
    return found


class Fleets:
    """Counts the runs of fleets in which a share of all requests meets the goal."""

    def __init__(self, make: Any, goal: Any, shares: Any, sizes: Any = (20,)) -> None:
        """Take a function of replicas and seed that returns a share, and the number of requests of each seed."""
        self.make, self.goal, self.shares, self.sizes = make, goal, shares, sizes
        self.calls: list[Any] = []

    def __call__(self, replicas, seed):
        """Run, as the argument of `replicas_needed`."""
        self.calls.append((replicas, seed))
        count = self.sizes[seed % len(self.sizes)]
        good = round(self.shares(replicas, seed) * count)
        return [outcome(self.make, self.goal, n < good, n + replicas) for n in range(count)]

    @property
    def tried(self):
        """Return the numbers of replicas that were run, in order."""
        return list(dict.fromkeys(replicas for replicas, _ in self.calls))


def step_at(needed):
    """Return shares that suffice from a number of replicas on."""
    return lambda replicas, seed: 1.0 if replicas >= needed else 0.5


def noisy(seed):
    """Return shares that rise with the replicas, with noise that depends on both arguments."""

    def shares(replicas, run):
        return min(1.0, max(0.0, replicas / 40 + random.Random(f"{seed} {replicas} {run}").uniform(-0.2, 0.2)))

    return shares
