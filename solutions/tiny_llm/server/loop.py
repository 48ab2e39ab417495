"""One thread computes, another one talks to everybody: callers come and go while the scheduler steps.

Nothing of the scheduler is locked. It is touched by jobs of one worker alone, which does them one after the other:
so whatever comes in during a step takes its turn behind it.
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
    """The loop is being closed: it takes no new requests, and has not finished this one."""


class EngineFailed(Exception):
    """A step with this request in it has failed; its cause is what was raised there."""


@dataclass(frozen=True)
class News:
    """What has become of a request since its caller last looked."""

    request: Request
    tokens: list[int]  # that its text has gained
    finished: str  # why it has ended, in the last news of it; "" before


class EngineLoop:
    """Serves many callers with one scheduler, in steps, while anybody is there."""

    def __init__(
        self, scheduler: Scheduler, worker: Executor, watch: Callable[[Step], None] = lambda step: None
    ) -> None:
        """Begin with nobody.

        Args:
            scheduler: is touched by jobs of the worker alone.
            worker: does one job after the other, in the order in which they are submitted.
            watch: is told every step that was done, here and not in the worker, before the callers hear of it.
        """
        self._scheduler, self._worker, self._watch = scheduler, worker, watch
        self._callers: dict[Request, _Mailbox] = {}  # of all requests that are there
        self._stepping: asyncio.Task[None] | None = None
        self._closed = False

    async def stream(self, requests: Sequence[Request]) -> AsyncGenerator[News, None]:
        """Have some requests served, all of them or none.

        Whoever reads slowly finds all that has come in the meantime in one news of each request; nobody waits for
        them. Whoever stops reading (closes the generator, or is cancelled) cancels what has not ended, without waiting
        for anything: the job is done behind the step that is going on.

        Yields:
            News of these requests, until all of them have ended.

        Raises:
            ValueError: the scheduler refuses one of them.
            EngineFailed: a step with one of them in it has failed.
            EngineClosed: the loop is closed, or was closed before all of them had ended.
        """
        mailbox = _Mailbox()
        try:
            for request in requests:
                if self._closed:
                    raise EngineClosed("the server is shutting down")
                self._callers[request] = mailbox  # before the job: the next step may already have a token
                await self._do(self._scheduler.submit, request)
            if self._stepping is None or self._stepping.done():
                self._stepping = asyncio.create_task(self._steps())
            ended = 0
            while ended < len(requests):
                for news in await mailbox.opened():
                    ended += bool(news.finished)
                    yield news
        finally:
            for request in requests:
                if self._callers.pop(request, None):
                    self._worker.submit(self._cancel, request)

    async def close(self, seconds: float) -> None:
        """Take no new requests, let those that are there end within so many seconds, and cancel the others.

        That is done behind the step that is going on, and then their callers get an EngineClosed: after the news of
        that step, and not before. When this returns, nobody is left in the scheduler, and no step goes on.
        """
        self._closed = True
        if self._stepping:
            await asyncio.wait([self._stepping], timeout=seconds)
        left = list(self._callers.items())
        # All at once: a job that is submitted when another one is done may stand behind one more step.
        await asyncio.gather(*(self._do(self._cancel, request) for request, _ in left))
        for request, mailbox in left:
            self._callers.pop(request, None)
            mailbox.fail(EngineClosed("the server is shutting down"))
        if self._stepping:
            await self._stepping

    async def _steps(self) -> None:
        """Step while anybody is there."""
        while self._callers:
            try:
                step = await self._do(self._scheduler.step)
            except Exception as error:
                await self._fail(error)
                continue
            self._watch(step)
            for chunk, tokens in zip(step.chunks, step.new, strict=True):
                request = chunk.request
                finished = request.finished if request in step.finished else ""
                if mailbox := self._callers.get(request):
                    mailbox.tell(request, tokens, finished)
                if finished:
                    self._callers.pop(request, None)

    async def _fail(self, error: Exception) -> None:
        """A step has failed: those that ran are through, and nobody else; if none ran, everybody is."""
        failed = await self._do(self._end_running)
        for request in failed or list(self._callers):
            if mailbox := self._callers.pop(request, None):
                await self._do(self._cancel, request)
                mailbox.fail(error)

    async def _do(self, job: Callable[P, T], *args: P.args, **_: P.kwargs) -> T:
        """What the worker's next job gives, or raises; others go on in the meantime."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, job, *args)

    def _cancel(self, request: Request) -> None:
        """A job: end a request."""
        with suppress(ValueError):  # the scheduler has refused it
            self._scheduler.cancel(request)

    def _end_running(self) -> list[Request]:
        """A job: end all that run, and say who they were."""
        running = list(self._scheduler.running)
        for request in running:
            self._scheduler.cancel(request)
        return running


class _Mailbox:
    """News for one caller, which are put together until they are read: no more than the texts are long."""

    def __init__(self) -> None:
        self._news: dict[Request, News] = {}
        self._error: Exception | None = None
        self._filled = asyncio.Event()

    def tell(self, request: Request, tokens: list[int], finished: str) -> None:
        if not tokens and not finished:
            return
        before = self._news[request].tokens if request in self._news else []
        self._news[request] = News(request, before + tokens, finished)
        self._filled.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._filled.set()

    async def opened(self) -> list[News]:
        """All news, as soon as there are any; an error comes after them."""
        await self._filled.wait()
        if not self._news and self._error:
            if isinstance(self._error, EngineClosed):
                raise self._error
            raise EngineFailed("the model has failed") from self._error
        found, self._news = list(self._news.values()), {}
        if not self._error:
            self._filled.clear()
        return found
