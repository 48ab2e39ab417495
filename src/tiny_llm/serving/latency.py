"""Request latencies: time to first token, time per output token, and their percentiles."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RequestTimes:
    """The times of one request's events, in seconds of one clock."""

    arrival: float  # when it was sent
    scheduled: float  # when it was admitted
    tokens: Sequence[float] = ()  # when each of its output tokens came, in order


@dataclass(frozen=True)
class Percentiles:
    """The 50th, 95th and 99th percentile."""

    p50: float
    p95: float
    p99: float


class Latency:
    """TTFT and TPOT of many requests.

    TTFT, the time to first token, is the time from a request's arrival to its first token. TPOT, the time per output
    token, is the mean of the times between successive tokens of a request.
    """

    def __init__(self) -> None:
        """Start with no requests.

        `ttft` lists the TTFT of every request with at least one token, `tpot` the TPOT of every request with at least
        two, both in seconds and in the order in which requests were added.
        """
        raise NotImplementedError("3.2.3 TTFT, TPOT and percentiles")

    def add(self, times: RequestTimes) -> None:
        """Record a request that has ended. One without a token, which was cancelled, adds to neither list."""
        raise NotImplementedError("3.2.3 TTFT, TPOT and percentiles")

    def summary(self) -> dict[str, Percentiles | None]:
        """Return the percentiles of "ttft" and "tpot"; None for an empty list."""
        raise NotImplementedError("3.2.3 TTFT, TPOT and percentiles")

    @staticmethod
    def percentile(numbers: Sequence[float], percent: int) -> float:
        """Return the smallest number that at least `percent` percent of the numbers do not exceed: the nearest rank.

        It is always one of the numbers, never an interpolation: the one of rank ceil(percent * n / 100) among the n in
        ascending order, where the smallest has rank 1.

        Args:
            numbers: at least one, in any order; not modified.
            percent: 1 to 100.

        Raises:
            ValueError: there are no numbers, or percent is out of range; the message gives percent.
        """
        raise NotImplementedError("3.2.3 TTFT, TPOT and percentiles")
