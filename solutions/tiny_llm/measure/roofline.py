"""How fast a machine can be at most with some work, and which of its two limits says so."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Reached:
    """Which part of a machine's limits some work came up to: 1 is all."""

    bandwidth: float
    rate: float


class Roofline:
    """A machine that moves so many bytes a second, and computes meanwhile."""

    def __init__(self, bandwidth: float, rate: float) -> None:
        """Keep both limits, as they were measured.

        Args:
            bandwidth: bytes a second.
            rate: floating-point operations (FLOPs) a second.

        Raises:
            ValueError: one of them is not above 0.
        """
        if not (bandwidth > 0 and rate > 0):
            raise ValueError(f"bandwidth is {bandwidth} and rate {rate}, but both must be above 0")
        self.bandwidth, self.rate = bandwidth, rate

    def ridge(self) -> float:
        """How many FLOPs there must be for each byte, so that moving and computing take equally long."""
        return self.rate / self.bandwidth

    def least_seconds(self, flops: int, size: int) -> float:
        """The least time for some work: bytes move while others are computed with, so the longer of the two.

        Args:
            flops: to compute.
            size: bytes to move.
        """
        return max(size / self.bandwidth, flops / self.rate)

    def limit(self, flops: int, size: int) -> str:
        """What takes that time: "arithmetic" if computing takes longer than moving, else "memory".

        Args:
            flops: to compute.
            size: bytes to move.
        """
        return "arithmetic" if flops / self.rate > size / self.bandwidth else "memory"

    def reached(self, flops: int, size: int, seconds: float) -> Reached:
        """Which part of both limits some work came up to; the larger one says how near it came to the least time.

        Args:
            flops: computed.
            size: bytes moved.
            seconds: that it took.
        """
        return Reached(size / seconds / self.bandwidth, flops / seconds / self.rate)

    def turn(self, work: Callable[[int], tuple[int, int]], most: int) -> int | None:
        """Where work that grows turns from memory to arithmetic, as a step does with the rows of its batch.

        Args:
            work: gives the FLOPs and the bytes of work of size n. Once arithmetic is the limit, it is for all larger n.
            most: the largest n.

        Returns:
            The smallest n from 1 to most at which arithmetic is the limit; None if it is at none of them.

        Source: Williams, Waterman and Patterson 2009.
        """
        return next((n for n in range(1, most + 1) if self.limit(*work(n)) == "arithmetic"), None)
