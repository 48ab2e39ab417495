"""What is read off an engine while it serves: its slots, pages and pace, and the scores of the tokens it chose."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mlx.core as mx

CELLS = 300  # of the picture of all pages
SPAN = 2.0  # seconds over which the pace is taken
Choose = Callable[[mx.array, list[Any]], list[list[int]]]


class State:
    """Looks at a scheduler, in the thread that steps it."""

    def __init__(self, scheduler: Any, mode: str) -> None:
        """Begin to look.

        Args:
            scheduler: a `serving.scheduler.Scheduler`.
            mode: the name of the way in which it serves.
        """
        self._scheduler, self._mode = scheduler, mode
        self._written: deque[tuple[float, int]] = deque()  # when, and how many tokens

    def stepped(self, step: Any) -> None:
        """A step has been done."""
        self._written.append((time.monotonic(), sum(map(len, step.new))))
        self._forget()

    def now(self) -> dict[str, Any]:
        """All that the page draws, as JSON has it."""
        self._forget()
        scheduler = self._scheduler
        running = [
            {"id": request.number, "prompt": len(request.prompt), "read": request.read, "output": len(request.output)}
            for request in scheduler.running
        ]
        return {
            "mode": self._mode,
            "slots": scheduler.slots,
            "running": running,
            "waiting": len(scheduler.waiting),
            "tokens_per_second": sum(count for _, count in self._written) / SPAN,
            "pages": self._pages(),
            "prefix": self._prefix(),
        }

    def _pages(self) -> dict[str, Any] | None:
        """How many pages are free, in use, or only kept by a prefix cache; and who has them, in CELLS parts or fewer.

        A part shows the number of a request that has one of its pages, else "kept", else None.
        """
        memory = self._scheduler.memory
        if not hasattr(memory, "pool"):
            return None
        pool = memory.pool
        owners: list[Any] = ["kept" if pool.holders(page) else None for page in range(pool.pages)]
        for request, table in memory.tables.items():
            for page in table:
                owners[page] = request.number
        kept = owners.count("kept")
        each = -(-pool.pages // CELLS)
        return {
            "all": pool.pages,
            "size": memory.storage.page,
            "free": pool.free,
            "kept": kept,
            "each": each,
            "cells": [_owner(owners[at : at + each]) for at in range(0, pool.pages, each)],
        }

    def _prefix(self) -> dict[str, int] | None:
        memory = self._scheduler.memory
        return {"asked": memory.asked, "hit": memory.hit} if hasattr(memory, "asked") else None

    def _forget(self) -> None:
        since = time.monotonic() - SPAN
        while self._written and self._written[0][0] < since:
            self._written.popleft()


def _owner(part: list[Any]) -> Any:
    return next((owner for owner in part if isinstance(owner, int)), "kept" if "kept" in part else None)


@dataclass(frozen=True)
class Score:
    """A token's, and the likeliest ones beside it."""

    token: int
    logprob: float
    likeliest: tuple[tuple[int, float], ...]


class LogprobRecorder:
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
