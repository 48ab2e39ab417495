"""Scores of an agent on a suite: how often it succeeds, how reliably, at which cost, and compared with another one."""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..evaluation.intervals import Comparison, bootstrap_interval, compare_paired
from ..evaluation.samples import pass_at_k


class Run(NamedTuple):
    """One run of an agent on one case."""

    case: str
    solved: bool
    steps: int
    tokens: int


class Rate(NamedTuple):
    """A success rate with its interval."""

    mean: float
    low: float
    high: float


class Usage(NamedTuple):
    """What runs need."""

    steps: float  # mean of all runs
    tokens: float  # mean of all runs
    cost: float  # of all runs together, in dollars
    cost_per_solved: float  # the cost of all runs for each solved one; infinite if none is solved


class Scores:
    """The runs of one agent, grouped by case. Each case counts equally, however often it was run."""

    def __init__(self, runs: Iterable[Run]) -> None:
        """Group the runs; the cases are in the order in which they first occur.

        Raises:
            ValueError: there are no runs.
        """
        self.runs = list(runs)
        self._by_case: dict[str, list[Run]] = {}
        for run in self.runs:
            self._by_case.setdefault(run.case, []).append(run)
        if not self.runs:
            raise ValueError("there are no runs")

    def shares(self) -> dict[str, float]:
        """Return the share of solved runs of each case, in the order of the cases."""
        return {case: sum(run.solved for run in runs) / len(runs) for case, runs in self._by_case.items()}

    def success(self, confidence: float = 0.95) -> Rate:
        """Return the mean of the cases' shares, with its `bootstrap_interval`: cases are drawn, not runs.

        With one run of each case this is the share of solved cases; in general it is pass@1.
        """
        shares = list(self.shares().values())
        return Rate(math.fsum(shares) / len(shares), *bootstrap_interval(shares, confidence))

    def pass_at(self, k: int) -> float:
        """Return pass@k, the mean over the cases of `pass_at_k`: at least one of k runs succeeds.

        Raises:
            ValueError: a case has fewer than k runs, or k is below 1. The message has the case's name.
        """
        return self._mean(k, lambda solved, runs: pass_at_k(runs, solved, k))

    def pass_all(self, k: int) -> float:
        """Return pass^k, the mean over the cases of the share of all sets of k runs in which every run is solved.

        Of n runs, c of them solved, that share is C(c, k) / C(n, k). It is unbiased, as `pass_at_k` is, and it equals
        pass@1 for k = 1.

        Raises:
            ValueError: as in `pass_at`.
        """
        return self._mean(k, lambda solved, runs: math.comb(solved, k) / math.comb(runs, k))

    def usage(self, price: float) -> Usage:
        """Return what the runs need, failed ones included, at a price in dollars per million tokens."""
        count, solved = len(self.runs), sum(run.solved for run in self.runs)
        steps, tokens = sum(run.steps for run in self.runs), sum(run.tokens for run in self.runs)
        cost = tokens * price / 1e6
        return Usage(steps / count, tokens / count, cost, cost / solved if solved else math.inf)

    def against(self, other: "Scores") -> Comparison:
        """Compare with another agent on the same cases: `compare_paired` of the shares, paired by the cases' names.

        Raises:
            ValueError: a case was run by one agent only. The message has the names of all such cases.
        """
        mine, theirs = self.shares(), other.shares()
        if unpaired := sorted(mine.keys() ^ theirs.keys()):
            raise ValueError(f"only one agent was run on {', '.join(unpaired)}")
        return compare_paired(list(mine.values()), [theirs[case] for case in mine])

    def _mean(self, k: int, estimate: Callable[[int, int], float]) -> float:
        """Return the mean over the cases of an estimate from the numbers of solved runs and of runs."""
        for case, runs in self._by_case.items():
            if not 1 <= k <= len(runs):
                raise ValueError(f"k is {k}, but {case} has {len(runs)} runs")
        counts = [(sum(run.solved for run in runs), len(runs)) for runs in self._by_case.values()]
        return math.fsum(estimate(solved, runs) for solved, runs in counts) / len(counts)
