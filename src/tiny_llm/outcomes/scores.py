"""Scores of an agent on a suite: how often it succeeds, how reliably, at which cost, and compared with another one."""

from collections.abc import Iterable
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
        raise NotImplementedError("7.6.2 Scores of an agent")

    def shares(self) -> dict[str, float]:
        """Return the share of solved runs of each case, in the order of the cases."""
        raise NotImplementedError("7.6.2 Scores of an agent")

    def success(self, confidence: float = 0.95) -> Rate:
        """Return the mean of the cases' shares, with its `bootstrap_interval`: cases are drawn, not runs.

        With one run of each case this is the share of solved cases; in general it is pass@1.
        """
        raise NotImplementedError("7.6.2 Scores of an agent")

    def pass_at(self, k: int) -> float:
        """Return pass@k, the mean over the cases of `pass_at_k`: at least one of k runs succeeds.

        Raises:
            ValueError: a case has fewer than k runs, or k is below 1. The message has the case's name.
        """
        raise NotImplementedError("7.6.2 Scores of an agent")

    def pass_all(self, k: int) -> float:
        """Return pass^k, the mean over the cases of the share of all sets of k runs in which every run is solved.

        Of n runs, c of them solved, that share is C(c, k) / C(n, k). It is unbiased, as `pass_at_k` is, and it equals
        pass@1 for k = 1.

        Raises:
            ValueError: as in `pass_at`.
        """
        raise NotImplementedError("7.6.2 Scores of an agent")

    def usage(self, price: float) -> Usage:
        """Return what the runs need, failed ones included, at a price in dollars per million tokens."""
        raise NotImplementedError("7.6.2 Scores of an agent")

    def against(self, other: "Scores") -> Comparison:
        """Compare with another agent on the same cases: `compare_paired` of the shares, paired by the cases' names.

        Raises:
            ValueError: a case was run by one agent only. The message has the names of all such cases.
        """
        raise NotImplementedError("7.6.2 Scores of an agent")
