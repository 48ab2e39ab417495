"""What became of a load: when each token came, and what that says of the server."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

PERCENTILES = (50, 95, 99)


@dataclasses.dataclass
class Answer:
    """One request's, in seconds after the load began."""

    at: float  # when it was sent
    tokens: list[float] = dataclasses.field(default_factory=list)  # when each came
    failed: str = ""  # why it has none, or not all
    counted: int = 0  # how many the server says that there were, if it says so: a piece of text may hold several

    @property
    def first(self) -> float:
        """Time to the first token, TTFT: seconds from when it was sent."""
        return self.tokens[0] - self.at

    @property
    def each(self) -> float:
        """Time per output token, TPOT: seconds between two tokens behind the first, in the mean."""
        return (self.tokens[-1] - self.tokens[0]) / (max(self.counted, len(self.tokens)) - 1)


@dataclasses.dataclass
class Outcome:
    """All of a load."""

    answers: list[Answer]
    preemptions: int = 0
    hits: float | None = None  # the part of the prompts' tokens that a prefix cache had; None: there is none

    @property
    def served(self) -> list[Answer]:
        """Those that have an answer."""
        return [answer for answer in self.answers if answer.tokens and not answer.failed]

    @property
    def throughput(self) -> float:
        """Tokens written a second, from the first request to the last token."""
        last = max((answer.tokens[-1] for answer in self.served), default=0.0)
        written = sum(answer.counted or len(answer.tokens) for answer in self.served)
        return written / (last - min(answer.at for answer in self.answers)) if last else 0.0

    def summary(self) -> dict[str, Any]:
        """How long somebody waited, as a record has it; times in seconds."""
        found: dict[str, Any] = {
            "failed": len(self.answers) - len(self.served),
            "ttft": percentiles([answer.first for answer in self.served]),
            "tpot": percentiles([answer.each for answer in self.served if len(answer.tokens) > 1]),
            "preemptions": self.preemptions,
        }
        return found | ({} if self.hits is None else {"hits": self.hits})


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50, p95 and p99, of nothing nothing."""
    return {f"p{p}": float(np.percentile(seconds, p)) for p in PERCENTILES} if seconds else {}
