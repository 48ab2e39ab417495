"""A test rig for an engine loop: a worker and a scheduler in virtual time, callers, and a log of what they receive.

A step takes a second, other tasks no time. A request's prompt is [its name, tokens per step, steps before its first
token]; request 100 generates 101, 102, ..
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from tests.week3.virtual_time import now


@dataclass(eq=False)
class Request:
    """`serving.request.Request`, with all of its fields: a loop may use any of them."""

    prompt: list[int]
    max_tokens: int
    params: Any = None
    eos_ids: tuple[int, ...] = ()
    stop: Callable[[int], bool] | None = None
    user: str = ""
    request_id: int = -1
    output: list[int] = field(default_factory=list)
    num_computed_tokens: int = 0
    finish_reason: str = ""

    @property
    def num_tokens(self) -> int:
        """As there."""
        return len(self.prompt) + len(self.output)

    @property
    def num_uncomputed_tokens(self) -> int:
        """As there."""
        return self.num_tokens - self.num_computed_tokens


@dataclass(frozen=True)
class Chunk:
    """The same for `serving.request.Chunk`."""

    request: Request
    start: int
    tokens: list[int]
    num_logits: int


@dataclass
class Step:
    """The same for `serving.scheduler.Step`."""

    chunks: list[Chunk] = field(default_factory=list)
    new: list[list[int]] = field(default_factory=list)
    admitted: list[Request] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    finished: list[Request] = field(default_factory=list)


class Worker(Executor):
    """Runs one task after another, without a thread; `taken` is how long the current one takes."""

    def __init__(self) -> None:
        self.inside, self.taken = False, 0.0
        self._jobs: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._busy = False

    def submit(self, job: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._jobs.append((future, lambda: job(*args, **kwargs)))
        if not self._busy:
            self._busy = True
            asyncio.get_running_loop().call_soon(self._next)
        return future

    def _next(self) -> None:
        while self._jobs:
            future, job = self._jobs.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            self.inside, self.taken = True, 0.0
            tell: Callable[[Any], None] = future.set_result
            try:
                result = job()
            except BaseException as error:
                result, tell = error, future.set_exception
            self.inside = False
            if self.taken:
                asyncio.get_running_loop().call_later(self.taken, self._done, tell, result)
                return
            tell(result)
        self._busy = False

    def _done(self, tell: Callable[[Any], None], result: Any) -> None:
        tell(result)
        self._next()


class StubScheduler:
    """Counts up. A step takes effect when it begins and is reported a second later."""

    def __init__(self, worker: Worker, slots: int, fails: Sequence[int], early: bool) -> None:
        self.worker, self.slots, self.fails, self.early = worker, slots, fails, early
        self.running: list[Request] = []
        self.waiting: list[Request] = []
        self.steps, self.submitted, self.outside = 0, 0, set[str]()

    def _touched(self, what: str) -> None:
        if not self.worker.inside:
            self.outside.add(what)

    def submit(self, request: Request) -> None:
        self._touched("submit")
        if len(request.prompt) < 3:
            raise ValueError("the prompt is too short for this scheduler")
        request.request_id = self.submitted
        self.submitted += 1
        self.waiting.append(request)

    def cancel(self, request: Request) -> None:
        self._touched("cancel")
        if request.finish_reason:
            return
        (self.running if request in self.running else self.waiting).remove(request)
        request.finish_reason = "cancelled"

    def step(self) -> Step:
        self._touched("step")
        self.steps += 1
        if self.running or self.waiting:
            self.worker.taken = 1.0
        if self.early and self.steps in self.fails:
            raise RuntimeError("no capacity can be freed")
        while self.waiting and len(self.running) < self.slots:
            self.running.append(self.waiting.pop(0))
        if self.steps in self.fails:
            raise RuntimeError("the model has failed")
        step = Step()
        for request in list(self.running):
            name, gain, before = request.prompt
            request.num_computed_tokens += 1
            count = min(gain, request.max_tokens - len(request.output)) if request.num_computed_tokens > before else 0
            new = [name + len(request.output) + 1 + i for i in range(count)]
            eos = next((i for i, token in enumerate(new) if token in request.eos_ids), count)
            stopped, new = eos < count, new[:eos]
            request.output += new
            step.chunks.append(Chunk(request, 0, [0], 1))
            step.new.append(new)
            if stopped or len(request.output) == request.max_tokens:
                request.finish_reason = "stop" if stopped else "length"
                self.running.remove(request)
                step.finished.append(request)
        return step


class Room:
    """An engine loop with all that it needs, and its callers."""

    def __init__(self, program: Any, slots: int = 8, fails: Sequence[int] = (), early: bool = False) -> None:
        self.worker = Worker()
        self.scheduler = StubScheduler(self.worker, slots, fails, early)
        self.watched: list[Step] = []
        self.engine = program(self.scheduler, self.worker, self.watched.append)
        self.told: list[list[str]] = []

    def caller(self, *requests: Request, rests: float = 0.0, leaves: int = 0) -> "asyncio.Task[None]":
        """Read a stream; pause after the first update, or leave after a given number of them."""
        self.told.append([])
        return asyncio.get_running_loop().create_task(self._reads(self.told[-1], requests, rests, leaves))

    async def _reads(self, told: list[str], requests: Sequence[Request], rests: float, leaves: int) -> None:
        number = 0
        try:
            stream = self.engine.stream(list(requests))
            if inspect.iscoroutine(stream):
                await stream
            async for news in stream:
                number += 1
                tokens = "".join(f" {token}" for token in news.tokens)
                steps = len(self.watched)
                end = f" {news.finish_reason}" if news.finish_reason else ""
                told.append(f"{now():g} s: {news.request.prompt[0]} gets{tokens}{end}, {steps} watched")
                if number == leaves:
                    await stream.aclose()
                    told.append(f"{now():g} s: leaves")
                    break
                if number == 1 and rests:
                    await asyncio.sleep(rests)
            else:
                told.append(f"{now():g} s: through")
        except asyncio.CancelledError:
            told.append(f"{now():g} s: cancelled")
            raise
        except NotImplementedError:
            raise
        except Exception as error:
            why = f", from {type(error.__cause__).__name__}" if error.__cause__ else ""
            told.append(f"{now():g} s: {type(error).__name__}{why}")

    def held(self) -> str:
        """Log the requests in the scheduler."""
        there = sorted(request.prompt[0] for request in (*self.scheduler.running, *self.scheduler.waiting))
        return f"{now():g} s: {' and '.join(map(str, there)) or 'none'} in the scheduler"


def asked(name: int, most: int = 3, gain: int = 1, before: int = 0) -> Request:
    """Return a request of a given number of tokens."""
    return Request([name, gain, before], most)
