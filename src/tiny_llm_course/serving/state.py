"""What an engine is doing, for somebody who looks: its slots, its pages, how fast it writes."""

import time
from collections import deque
from typing import Any

CELLS = 300  # of the picture of all pages
SPAN = 2.0  # seconds over which the pace is taken


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
            {
                "id": request.number,
                "prompt": len(request.prompt),
                "read": request.read,
                "output": len(request.output),
            }
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
