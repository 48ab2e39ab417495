"""A worker thread steps the scheduler; the event loop serves clients, who come and go meanwhile.

The scheduler needs no lock: only the worker's tasks touch it, one after the other. So a call that arrives during a step
runs after that step.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from ..serving.request import Request
from ..serving.scheduler import Scheduler
from ..serving.step import Step

P = ParamSpec("P")
T = TypeVar("T")


class EngineClosed(Exception):
    """Raised when the loop is closing: it accepts no new requests, and has not finished this one."""


class EngineFailed(Exception):
    """Raised when a step with this request in it has failed; the cause is the step's exception."""


@dataclass(frozen=True)
class RequestUpdate:
    """A request's progress since its caller's previous update."""

    request: Request
    tokens: list[int]  # new output tokens
    finish_reason: str  # why it has ended, in its last update; "" before


class EngineLoop:
    """Serves many callers with one scheduler, which steps while any request is unfinished."""

    def __init__(
        self, scheduler: Scheduler, worker: Executor, watch: Callable[[Step], None] = lambda step: None
    ) -> None:
        """Create a loop with no callers.

        Args:
            scheduler: only the worker's tasks touch it.
            worker: runs one task after the other, in the order in which they are submitted.
            watch: called with every finished step, in the event loop and not in the worker, before the callers get
                their updates.
        """
        raise NotImplementedError("3.7.1 A worker thread for the engine")

    async def stream(self, requests: Sequence[Request]) -> AsyncGenerator[RequestUpdate, None]:
        """Serve some requests, all of them or none.

        A slow caller gets everything since its previous update in one update per request, and delays no other caller. A
        caller that stops reading (closes the generator, or is cancelled) cancels its unfinished requests without
        waiting: they are cancelled after the current step.

        Yields:
            Updates of these requests, until all of them have ended.

        Raises:
            ValueError: the scheduler rejects one of them.
            EngineFailed: a step has failed with one of them in it, or with no request running.
            EngineClosed: the loop is closed, or was closed before all of them had ended.
        """
        raise NotImplementedError("3.7.1 A worker thread for the engine")

    async def close(self, seconds: float) -> None:
        """Accept no new requests, let the present ones end within `seconds` seconds, and cancel the others.

        They are cancelled after the current step, and their callers get an EngineClosed after that step's updates. When
        this returns, the scheduler has no requests, and no step is running.
        """
        raise NotImplementedError("3.7.1 A worker thread for the engine")
