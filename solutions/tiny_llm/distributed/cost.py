"""The alpha-beta model: what a message costs, and which collective is fastest for how many bytes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
        n, t = np.array(num_bytes, np.float64), np.array(seconds, np.float64)
        if n.shape != t.shape or len(set(num_bytes)) < 2 or not (t > 0).all():
            raise ValueError(
                f"{n.size} sizes, {len(set(num_bytes))} of them different, and {t.size} times: expected as many times "
                "as sizes, two different sizes at least, and positive times"
            )
        predicted_over_measured = np.stack([1 / t, n / t], axis=1)
        scale = predicted_over_measured.max(axis=0)  # the two columns differ by many orders of magnitude
        found, *_ = np.linalg.lstsq(predicted_over_measured / scale, np.ones_like(t))
        return cls(*map(float, found / scale))

    def message(self, num_bytes: float) -> float:
        """Return the seconds for a message of this size."""
        return self.latency + self.seconds_per_byte * num_bytes

    def reduce_scatter(self, num_bytes: float, ranks: int) -> float:
        """Return the seconds for a ring reduce-scatter: ranks - 1 steps, each with a chunk of num_bytes / ranks."""
        return (ranks - 1) * self.message(num_bytes / ranks)

    def all_gather(self, num_bytes: float, ranks: int) -> float:
        """Return the seconds for a ring all-gather: as many steps of the same size."""
        return self.reduce_scatter(num_bytes, ranks)

    def ring_all_reduce(self, num_bytes: float, ranks: int) -> float:
        """Return the seconds for a reduce-scatter and an all-gather."""
        return self.reduce_scatter(num_bytes, ranks) + self.all_gather(num_bytes, ranks)

    def one_shot_all_reduce(self, num_bytes: float, ranks: int) -> float:
        """Return the seconds if every rank gathers all complete arrays over the ring and adds them up itself."""
        return (ranks - 1) * self.message(num_bytes)

    def central_all_reduce(self, num_bytes: float, ranks: int) -> float:
        """Return the seconds if rank 0 receives the complete arrays in turn, adds them, and sends each rank the sum."""
        return 2 * (ranks - 1) * self.message(num_bytes)

    def crossover(self, ranks: int) -> float:
        """Return the bytes at which one-shot and ring all-reduce take the same time; below it, one-shot is faster.

        It is infinite for two ranks or fewer, for which one-shot is never slower.
        """
        return math.inf if ranks <= 2 else self.latency / self.seconds_per_byte * ranks / (ranks - 2)
