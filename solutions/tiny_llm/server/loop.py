"""A worker thread steps the scheduler; the event loop serves clients, who come and go meanwhile.

The scheduler needs no lock: only the worker's tasks touch it, one after the other. So a call that arrives during a step
runs after that step.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
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
        self._scheduler, self._worker, self._watch = scheduler, worker, watch
        self._callers: dict[Request, _Inbox] = {}  # of all unfinished requests
        self._stepping: asyncio.Task[None] | None = None
        self._closed = False

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
        inbox = _Inbox()
        try:
            for request in requests:
                if self._closed:
                    raise EngineClosed("the server is shutting down")
                self._callers[request] = inbox  # before submitting: the next step may already yield a token
                await self._do(self._scheduler.submit, request)
            if self._stepping is None or self._stepping.done():
                self._stepping = asyncio.create_task(self._steps())
            ended = 0
            while ended < len(requests):
                for update in await inbox.get():
                    ended += bool(update.finish_reason)
                    yield update
        finally:
            for request in requests:
                if self._callers.pop(request, None):
                    self._worker.submit(self._cancel, request)

    async def close(self, seconds: float) -> None:
        """Accept no new requests, let the present ones end within `seconds` seconds, and cancel the others.

        They are cancelled after the current step, and their callers get an EngineClosed after that step's updates. When
        this returns, the scheduler has no requests, and no step is running.
        """
        self._closed = True
        if self._stepping:
            await asyncio.wait([self._stepping], timeout=seconds)
        left = list(self._callers.items())
        # All at once: a task that is submitted only after another one is done may run after one more step.
        await asyncio.gather(*(self._do(self._cancel, request) for request, _ in left))
        for request, inbox in left:
            self._callers.pop(request, None)
            inbox.fail(EngineClosed("the server is shutting down"))
        if self._stepping:
            await self._stepping

    async def _steps(self) -> None:
        """Step while there are callers."""
        while self._callers:
            try:
                step = await self._do(self._scheduler.step)
            except Exception as error:
                await self._fail(error)
                continue
            self._watch(step)
            for chunk, tokens in zip(step.chunks, step.new, strict=True):
                request = chunk.request
                finished = request.finish_reason if request in step.finished else ""
                if inbox := self._callers.get(request):
                    inbox.put(request, tokens, finished)
                if finished:
                    self._callers.pop(request, None)

    async def _fail(self, error: Exception) -> None:
        """End the requests that were running in a failed step, or all requests if none was running."""
        failed = await self._do(self._end_running)
        for request in failed or list(self._callers):
            if inbox := self._callers.pop(request, None):
                await self._do(self._cancel, request)
                inbox.fail(error)

    async def _do(self, job: Callable[P, T], *args: P.args, **_: P.kwargs) -> T:
        """Run a task in the worker without blocking the event loop; return its result, or raise its exception."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, job, *args)

    def _cancel(self, request: Request) -> None:
        """Cancel a request (a task of the worker)."""
        with suppress(ValueError):  # the scheduler has rejected it
            self._scheduler.cancel(request)

    def _end_running(self) -> list[Request]:
        """Cancel all running requests, and return them (a task of the worker)."""
        running = list(self._scheduler.running)
        for request in running:
            self._scheduler.cancel(request)
        return running


class _Inbox:
    """Updates for one caller, merged per request until they are read, so that its size is bounded by the outputs."""

    def __init__(self) -> None:
        self._updates: dict[Request, RequestUpdate] = {}
        self._error: Exception | None = None
        self._filled = asyncio.Event()

    def put(self, request: Request, tokens: list[int], finished: str) -> None:
        if not tokens and not finished:
            return
        before = self._updates[request].tokens if request in self._updates else []
        self._updates[request] = RequestUpdate(request, before + tokens, finished)
        self._filled.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._filled.set()

    async def get(self) -> list[RequestUpdate]:
        """Wait for updates and return them; raise an error only after all updates are read."""
        await self._filled.wait()
        if not self._updates and self._error:
            if isinstance(self._error, EngineClosed):
                raise self._error
            raise EngineFailed("the model has failed") from self._error
        found, self._updates = list(self._updates.values()), {}
        if not self._error:
            self._filled.clear()
        return found
