"""The duration of a scheduler step: a linear cost model, fitted to recorded steps."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from ..serving.request import Chunk


class Work(NamedTuple):
    """What a step computes, as three counts."""

    prefilled: int  # tokens in chunks that prefill
    decoding: int  # chunks that decode
    cached: int  # tokens that were in the KV cache before the step, of all chunks


@dataclass(frozen=True)
class StepCost:
    """The seconds of a step: `base` + `prefilled`, `decoding` and `cached` times the counts of the step's `Work`.

    `base` is what every step takes, such as reading the weights once. The three other coefficients are seconds for
    each prefilled token (arithmetic), for each decoding request (its row of logits and its sampling), and for each
    token whose keys and values attention reads (memory traffic).
    """

    base: float
    prefilled: float
    decoding: float
    cached: float

    @staticmethod
    def work(chunks: Iterable[Chunk]) -> Work:
        """Count what a step with these chunks computes.

        A chunk decodes if it has one token and that token is part of the request's output: its position is not in the
        prompt. All other chunks prefill. This depends on the chunk and the prompt alone, so it may be called before
        the step or after it. Each chunk's `start` tokens count as cached, whether it prefills or decodes.
        """
        raise NotImplementedError("6.5.1 The cost of a step")

    def seconds(self, work: Work) -> float:
        """Return the predicted duration of a step."""
        raise NotImplementedError("6.5.1 The cost of a step")

    @classmethod
    def fit(cls, steps: Sequence[tuple[Work, float]]) -> Self:
        """Return the model with the least squared relative error: the sum of (predicted / measured - 1)^2 is minimal.

        A step of 2 ms that is predicted as 3 ms counts as much as one of 200 ms predicted as 300 ms. No coefficient is
        negative, because more work never takes less time: the result is the best of all models whose four
        coefficients are at least 0. If several models are best, it is any of them.

        Args:
            steps: recorded steps, the work and the measured seconds of each.

        Raises:
            ValueError: there are no steps, or a step has no positive duration; the message gives that duration.
        """
        raise NotImplementedError("6.5.1 The cost of a step")
