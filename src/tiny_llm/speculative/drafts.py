"""What a drafter gives, and what a scheduler asks of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import mlx.core as mx

from ..serving.request import Request


@dataclass(frozen=True)
class Draft:
    """Tokens that may come next, one behind the other."""

    tokens: list[int] = field(default_factory=list)
    probabilities: mx.array | None = None  # k x V, what each was drawn with; None: nothing was drawn, each was certain

    def rows(self, size: int) -> mx.array:
        """The probabilities, k x size, float32: of a token that was certain, 1 for itself and 0 for all others."""
        if self.probabilities is not None:
            return self.probabilities
        tokens = mx.array(self.tokens, mx.int32)[:, None]  # k x 1
        return (tokens == mx.arange(size)).astype(mx.float32)


class Drafter(Protocol):
    """Guesses what requests will write."""

    def draft(self, requests: list[Request], counts: list[int]) -> list[Draft]:
        """At most so many tokens for each of some requests, behind all that it has so far."""

    def keep(self, running: Sequence[Request]) -> None:
        """Forget every request but these."""
