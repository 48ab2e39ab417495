"""Observe an engine while it serves: its slots, pages and throughput."""

import time
from collections import deque
from typing import Any
from weakref import WeakKeyDictionary

CELLS = 300  # of the picture of all pages
SPAN = 2.0  # seconds over which throughput is measured


class State:
    """Observe a `serving.scheduler.Scheduler`; `mode` is the name of its mode."""

    def __init__(self, scheduler: Any, mode: str) -> None:
        self._scheduler, self._mode = scheduler, mode
        # By request: the tokens that were in the prefix cache when it was first admitted.
        self.cached: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._written: deque[tuple[float, int]] = deque()  # when, and how many tokens

    def stepped(self, step: Any) -> None:
        """Count the tokens of a step, and the cached ones of the requests that it admitted."""
        self._written.append((time.monotonic(), sum(map(len, step.new))))
        self._forget()
        starts = {chunk.request: chunk.start for chunk in step.chunks}
        for request in step.admitted:  # the step may have computed more
            self.cached.setdefault(request, starts.get(request, request.num_computed_tokens))

    def metrics(self) -> dict[str, float]:
        """Return gauges and counters by their names. In any thread: what a step changes is copied first."""
        scheduler, memory = self._scheduler, self._scheduler.kv_cache
        found: dict[str, float] = {
            "vllm:num_requests_running": len(scheduler.running),
            "vllm:num_requests_waiting": len(scheduler.waiting),
            "tiny_llm:slots": scheduler.max_num_seqs,
        }
        if pool := getattr(memory, "pool", None):
            held = {page for table in list(memory.block_tables.values()) for page in tuple(table)}
            found |= {"tiny_llm:pages": pool.pages, "tiny_llm:free_pages": pool.num_free}
            found["vllm:kv_cache_usage_perc"] = len(held) / pool.pages
        if hasattr(memory, "queried_tokens"):
            found["vllm:prefix_cache_queries_total"] = memory.queried_tokens
            found["vllm:prefix_cache_hits_total"] = memory.hit_tokens
        speculation: Any = getattr(scheduler.policy, "__self__", None)
        if hasattr(speculation, "num_draft_tokens"):
            found["vllm:spec_decode_num_draft_tokens_total"] = speculation.num_draft_tokens
            found["vllm:spec_decode_num_accepted_tokens_total"] = speculation.num_accepted_tokens
        return found

    def now(self) -> dict[str, Any]:
        """Return all that the page draws, as JSON. Call it in the thread that steps."""
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
        parts = (owners[at : at + each] for at in range(0, pool.pages, each))
        cells = [next((o for o in part if isinstance(o, int)), "kept" if "kept" in part else None) for part in parts]
        return {
            "all": pool.pages,
            "size": memory.storage.page_size,
            "free": pool.num_free,
            "kept": kept,
            "each": each,
            "cells": cells,
        }

    def _forget(self) -> None:
        since = time.monotonic() - SPAN
        while self._written and self._written[0][0] < since:
            self._written.popleft()
