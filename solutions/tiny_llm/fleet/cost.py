"""The duration of a scheduler step: a linear cost model, fitted to recorded steps."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

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
        prefilled = decoding = cached = 0
        for chunk in chunks:
            if len(chunk.tokens) == 1 and chunk.start >= len(chunk.request.prompt):
                decoding += 1
            else:
                prefilled += len(chunk.tokens)
            cached += chunk.start
        return Work(prefilled, decoding, cached)

    def seconds(self, work: Work) -> float:
        """Return the predicted duration of a step."""
        prefilled, decoding, cached = work
        return self.base + self.prefilled * prefilled + self.decoding * decoding + self.cached * cached

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
        if not steps:
            raise ValueError("no recorded steps: a cost model is fitted to at least one")
        if (shortest := min(seconds for _, seconds in steps)) <= 0:
            raise ValueError(f"a step of {shortest} seconds: a duration must be positive")
        measured = np.array([seconds for _, seconds in steps])
        terms = np.array([(1, *work) for work, _ in steps]) / measured[:, None]  # steps x 4: the target is all ones
        scale = np.maximum(np.linalg.norm(terms, axis=0), np.finfo(float).tiny)  # columns of similar size
        terms = terms / scale
        best, found = np.inf, np.zeros(4)
        # The optimum is an unconstrained one of the terms that are not 0, and there are 15 sets of terms.
        for chosen in (list(c) for n in range(1, 5) for c in itertools.combinations(range(4), n)):
            part, _, rank, _ = np.linalg.lstsq(terms[:, chosen], np.ones(len(steps)), rcond=None)
            error = np.sum((terms[:, chosen] @ part - 1) ** 2)
            if rank == len(chosen) and part.min() >= 0 and error < best:
                best, found = error, np.zeros(4)
                found[chosen] = part
        return cls(*(found / scale).tolist())
