"""One thread computes, another one talks to everybody: callers come and go while the scheduler steps.

Nothing of the scheduler is locked. It is touched by jobs of one worker alone, which does them one after the other:
so whatever comes in during a step takes its turn behind it.
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
        raise NotImplementedError("3.7.1 One thread for the engine")

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
        raise NotImplementedError("3.7.1 One thread for the engine")

    async def close(self, seconds: float) -> None:
        """Take no new requests, let those that are there end within so many seconds, and cancel the others.

        That is done behind the step that is going on, and then their callers get an EngineClosed: after the news of
        that step, and not before. When this returns, nobody is left in the scheduler, and no step goes on.
        """
        raise NotImplementedError("3.7.1 One thread for the engine")
