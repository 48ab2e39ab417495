"""The interface between drafters and speculative decoding."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import mlx.core as mx

from ..serving.request import Request


@dataclass(frozen=True)
class Draft:
    """Proposed next tokens of one request, in order."""

    tokens: list[int] = field(default_factory=list)
    probabilities: mx.array | None = None  # k x V, what each was sampled from; None: nothing was sampled

    def rows(self, size: int) -> mx.array:
        """Return the probabilities, k x size, float32: one-hot rows if nothing was sampled."""
        if self.probabilities is not None:
            return self.probabilities
        tokens = mx.array(self.tokens, mx.int32)[:, None]  # k x 1
        return (tokens == mx.arange(size)).astype(mx.float32)


class Drafter(Protocol):
    """Proposes draft tokens."""

    def propose(self, requests: list[Request], counts: list[int]) -> list[Draft]:
        """Return a draft for each request, of at most that many tokens, to follow all its present tokens.

        A token of the request's `eos_ids` is the last of its draft, since the output would end with it.
        """

    def retain(self, running: Sequence[Request]) -> None:
        """Drop the state of all requests but these."""
