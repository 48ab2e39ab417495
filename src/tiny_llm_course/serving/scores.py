"""Log-probabilities of the tokens that were chosen, for requests that ask for them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

Choose = Callable[[mx.array, list[Any]], list[list[int]]]


@dataclass(frozen=True)
class Score:
    """A token's, and the likeliest ones beside it."""

    token: int
    logprob: float
    likeliest: tuple[tuple[int, float], ...]


class Scores:
    """Stands between a scheduler and its `choose`, which it asks, and looks at the logits of what was chosen.

    They are taken as the model gives them, before temperature and filters. It is called in the worker's thread.
    """

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._asked: dict[Any, tuple[int, dict[int, Score]]] = {}

    def ask(self, request: Any, likeliest: int) -> dict[int, Score]:
        """From now on keep the scores of a request, with so many of the likeliest: by a token's place in its output."""
        found: dict[int, Score] = {}
        self._asked[request] = likeliest, found
        return found

    def forget(self, request: Any) -> None:
        """Keep them no more."""
        self._asked.pop(request, None)

    def __call__(self, logits: mx.array, chunks: list[Any]) -> list[list[int]]:
        """As `Scheduler.choose`."""
        chosen, row = self._choose(logits, chunks), 0
        for chunk, tokens in zip(chunks, chosen, strict=True):
            if asked := self._asked.get(chunk.request):
                for number, token in enumerate(tokens):
                    asked[1][len(chunk.request.output) + number] = _score(logits[row + number], token, asked[0])
            row += chunk.scored
        return chosen


def _score(logits: mx.array, token: int, count: int) -> Score:
    """Of one row, V numbers."""
    logits = logits.astype(mx.float32)
    scores = logits - mx.logsumexp(logits)
    best = mx.argsort(-scores)[:count]
    pairs = zip(best.tolist(), scores[best].tolist(), strict=True)  # type: ignore[arg-type]
    return Score(token, float(scores[token].item()), tuple(pairs))  # type: ignore[arg-type]
