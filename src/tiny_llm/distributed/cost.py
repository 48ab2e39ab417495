"""The alpha-beta model: what a message costs, and which collective is fastest for how many bytes."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CostModel:
    """A message of n bytes takes `latency` + `seconds_per_byte` * n seconds (Hockney 1994).

    In the collectives, every rank can send one message and receive another at the same time. `num_bytes` is the size of
    the complete array: the input of a reduce-scatter and of an all-reduce, and the output of an all-gather. Additions
    cost nothing. With a single rank, nothing is sent, and the time is 0.
    """

    latency: float  # alpha, in seconds
    seconds_per_byte: float  # beta

    @classmethod
    def fit(cls, num_bytes: Sequence[float], seconds: Sequence[float]) -> "CostModel":
        """Return the model with the smallest sum of squared relative errors, ((predicted - measured) / measured)^2.

        With absolute errors, the largest messages alone would decide. Neither number is bounded: noisy measurements may
        give a negative one.

        Args:
            num_bytes: the size of each measured message, in a list or a NumPy array of floats.
            seconds: how long it took, in the same way.

        Raises:
            ValueError: the lists differ in length, a time is not positive, or there are fewer than two different sizes.
        """
        raise NotImplementedError("6.1.3 The cost model")

    def message(self, num_bytes: float) -> float:
        """Return the seconds for a message of this size."""
        raise NotImplementedError("6.1.3 The cost model")

    def reduce_scatter(self, num_bytes: float, ranks: int) -> float:
        """Return the seconds for a ring reduce-scatter: ranks - 1 steps, each with a chunk of num_bytes / ranks."""
        raise NotImplementedError("6.1.3 The cost model")

    def all_gather(self, num_bytes: float, ranks: int) -> float:
        """Return the seconds for a ring all-gather: as many steps of the same size."""
        raise NotImplementedError("6.1.3 The cost model")

    def ring_all_reduce(self, num_bytes: float, ranks: int) -> float:
        """Return the seconds for a reduce-scatter and an all-gather."""
        raise NotImplementedError("6.1.3 The cost model")

    def one_shot_all_reduce(self, num_bytes: float, ranks: int) -> float:
        """Return the seconds if every rank gathers all complete arrays over the ring and adds them up itself."""
        raise NotImplementedError("6.1.3 The cost model")

    def central_all_reduce(self, num_bytes: float, ranks: int) -> float:
        """Return the seconds if rank 0 receives the complete arrays in turn, adds them, and sends each rank the sum."""
        raise NotImplementedError("6.1.3 The cost model")

    def crossover(self, ranks: int) -> float:
        """Return the bytes at which one-shot and ring all-reduce take the same time; below it, one-shot is faster.

        It is infinite for two ranks or fewer, for which one-shot is never slower.
        """
        raise NotImplementedError("6.1.3 The cost model")
