"""The roofline model: the least time for some work, and whether it is memory-bound or compute-bound."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class Utilization:
    """The shares of a machine's two limits that some work reached; 1 is the limit itself."""

    bandwidth: float
    compute: float


class Roofline:
    """A machine with a memory bandwidth and a peak compute throughput, which moves bytes while it computes."""

    def __init__(self, bandwidth: float, peak_flops: float) -> None:
        """Store both measured limits.

        Args:
            bandwidth: bytes per second.
            peak_flops: floating-point operations per second (FLOP/s).

        Raises:
            ValueError: one of them is 0 or negative.
        """
        raise NotImplementedError("2.2.4 The roofline")

    def ridge(self) -> float:
        """Return the arithmetic intensity, in FLOPs per byte, at which moving and computing take equally long."""
        raise NotImplementedError("2.2.4 The roofline")

    def least_seconds(self, flops: int, size: int) -> float:
        """Return the least time to compute `flops` and move `size` bytes: both overlap, so the longer of the two."""
        raise NotImplementedError("2.2.4 The roofline")

    def limit(self, flops: int, size: int) -> str:
        """Return what bounds the work: "arithmetic" if computing takes longer than moving the bytes, else "memory"."""
        raise NotImplementedError("2.2.4 The roofline")

    def utilization(self, flops: int, size: int, seconds: float) -> Utilization:
        """Return the shares of both limits reached by work that took `seconds`.

        The larger share is the least time divided by the time taken.
        """
        raise NotImplementedError("2.2.4 The roofline")

    def crossover(self, work: Callable[[int], tuple[int, int]], most: int) -> int | None:
        """Find where growing work becomes compute-bound, as a decode step does with the rows of its batch.

        Args:
            work: returns the FLOPs and the bytes of work of size n. If it is compute-bound at n, it is at all larger n.
            most: the largest n.

        Returns:
            The smallest n from 1 to most at which the limit is "arithmetic"; None if there is none.

        Source: Williams, Waterman and Patterson 2009.
        """
        raise NotImplementedError("2.2.4 The roofline")
