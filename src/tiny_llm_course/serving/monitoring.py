"""Observe an engine while it serves: its slots, pages and throughput."""

import time
from collections import deque
from typing import Any

CELLS = 300  # of the picture of all pages
SPAN = 2.0  # seconds over which throughput is measured


class State:
    """Observe a `serving.scheduler.Scheduler`, in the thread that steps it; `mode` is the name of its mode."""

    def __init__(self, scheduler: Any, mode: str) -> None:
        self._scheduler, self._mode = scheduler, mode
        self._written: deque[tuple[float, int]] = deque()  # when, and how many tokens

    def stepped(self, step: Any) -> None:
        """Count the tokens of a step."""
        self._written.append((time.monotonic(), sum(map(len, step.new))))
        self._forget()

    def now(self) -> dict[str, Any]:
        """Return all that the page draws, as JSON."""
        self._forget()
        scheduler, cache = self._scheduler, self._scheduler.kv_cache
        has_prefixes = hasattr(cache, "queried_tokens")
        running = [
            {"id": r.request_id, "prompt": len(r.prompt), "read": r.num_computed_tokens, "output": len(r.output)}
            for r in scheduler.running
        ]
        return {
            "mode": self._mode,
            "slots": scheduler.max_num_seqs,
            "running": running,
            "waiting": len(scheduler.waiting),
            "tokens_per_second": sum(count for _, count in self._written) / SPAN,
            "pages": self._pages(),
            "prefix": {"asked": cache.queried_tokens, "hit": cache.hit_tokens} if has_prefixes else None,
        }

    def _pages(self) -> dict[str, Any] | None:
        """Return the page counts, and at most CELLS cells: the id of a holder of one of its pages, "kept" or None."""
        memory = self._scheduler.kv_cache
        if not hasattr(memory, "pool"):
            return None
        pool = memory.pool
        owners: list[Any] = ["kept" if pool.ref_count(page) else None for page in range(pool.pages)]
        for request, table in memory.block_tables.items():
            for page in table:
                owners[page] = request.request_id
        kept = owners.count("kept")
        each = -(-pool.pages // CELLS)
        return {
            "all": pool.pages,
            "size": memory.storage.page_size,
            "free": pool.num_free,
            "kept": kept,
            "each": each,
            "cells": [_owner(owners[at : at + each]) for at in range(0, pool.pages, each)],
        }

    def _forget(self) -> None:
        since = time.monotonic() - SPAN
        while self._written and self._written[0][0] < since:
            self._written.popleft()


def _owner(part: list[Any]) -> Any:
    return next((owner for owner in part if isinstance(owner, int)), "kept" if "kept" in part else None)
