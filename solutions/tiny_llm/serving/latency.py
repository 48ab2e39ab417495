"""How long people wait for their tokens: until the first one, and from each to the next."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """When things happened to one request, in seconds of one clock."""

    came: float  # it was sent
    begun: float  # it was let in
    tokens: Sequence[float] = ()  # each token of its output came, in order


@dataclass(frozen=True)
class Percentiles:
    """What half of all numbers do not exceed, 95 of a hundred, and 99 of a hundred."""

    p50: float
    p95: float
    p99: float


class Latency:
    """TTFT and TPOT of many requests.

    TTFT, the time to first token, is the time from when a request came until its first token came. TPOT, the time per
    output token, is the mean of the times from each of its tokens to the next.
    """

    def __init__(self) -> None:
        """Begin with no requests.

        Two lists of seconds are there to be read: `ttft`, of each request that has a token, and `tpot`, of each that
        has two or more, both in the order in which requests were added.
        """
        self.ttft: list[float] = []
        self.tpot: list[float] = []

    def add(self, times: Times) -> None:
        """Count one more request, which has ended. One without a token, which was cancelled, is in neither list."""
        if times.tokens:
            self.ttft.append(times.tokens[0] - times.came)
        if len(times.tokens) > 1:
            self.tpot.append((times.tokens[-1] - times.tokens[0]) / (len(times.tokens) - 1))

    def summary(self) -> dict[str, Percentiles | None]:
        """The percentiles of "ttft" and of "tpot", each None where there is no number."""
        found = {"ttft": self.ttft, "tpot": self.tpot}
        return {
            name: Percentiles(*(self.percentile(numbers, percent) for percent in (50, 95, 99))) if numbers else None
            for name, numbers in found.items()
        }

    @staticmethod
    def percentile(numbers: Sequence[float], percent: int) -> float:
        """The smallest of the numbers that at least so many percent of them do not exceed: the nearest rank.

        It is one of the numbers, and nothing between two of them: the one at place ceil(percent * n / 100) of n in
        ascending order, the first one at place 1.

        Args:
            numbers: at least one, in any order; they stay as they are.
            percent: 1 to 100.

        Raises:
            ValueError: there are no numbers, or percent is none of these.
        """
        if not numbers or not 1 <= percent <= 100:
            raise ValueError(
                f"percentile {percent} of {len(numbers)} numbers: it takes 1 to 100, and at least one number"
            )
        place = -(-percent * len(numbers) // 100)
        return sorted(numbers)[place - 1]
