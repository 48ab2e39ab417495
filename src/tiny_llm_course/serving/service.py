"""A model that is served: requests are made of what clients ask, let in by the gate, and answered by the loop."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..checkpoints.chat_template import render_chat
from ..course.registry import UsageError
from ..engine.serving import ServingEngine
from .refusals import Refusal, wrong
from .schema import Asked, Chat, Completion
from .watching import LogprobRecorder, Score, State


@dataclass
class Choice:
    """One answer of those that a request asks for."""

    index: int
    request: Any  # serving.request.Request
    text: Any  # serving.stopping.StopStrings
    scores: dict[int, Score] | None
    told: int = 0  # how many of its tokens have been sent
    begun: bool = False  # whether anything of it has been sent


class Service:
    """An engine and what stands around it: the learner's loop, gate, streams and figures."""

    def __init__(self, engine: ServingEngine, worker: ThreadPoolExecutor, name: str, waiting: int) -> None:
        """Put them together.

        Args:
            engine: was built in the worker's thread: MLX's streams belong to a thread.
            worker: has this one thread.
            name: of the model, for its clients.
            waiting: how many requests may wait beside those that run.

        Raises:
            LearnerError: the learner's code is not finished, or failed.
        """
        self.engine, self.name, self.worker = engine, name, worker
        self.scores = engine.scheduler.choose = LogprobRecorder(engine.scheduler.choose)
        self.closing = asyncio.Event()
        with engine.learners_code():
            self.metrics: Any = engine.part("server.metrics", "Metrics")()
            self.gate: Any = engine.part("server.backpressure", "Gate")(engine.scheduler.slots + waiting)
            loop = engine.part("server.loop", "EngineLoop")
            self.loop: Any = loop(engine.scheduler, worker, self._stepped)
            # What is not written yet is said now, and not to the first client.
            engine.part("serving.stopping", "StopStrings")(self._detokenizer(), [])
            engine.part("server.streaming", "TextStream")(self.loop.stream([]), {})
        self._state = State(engine.scheduler, engine.mode.name)
        self._too_busy = engine.part("server.backpressure", "TooBusy")
        self.failures = tuple(engine.part("server.loop", name) for name in ("EngineFailed", "EngineClosed"))
        self._longest_token = max(map(len, engine.tokenizer.token_bytes.values()), default=1)

    def _stepped(self, step: Any) -> None:
        self.metrics.stepped(step)
        self._state.stepped(step)

    async def state(self) -> dict[str, Any]:
        """What the engine is doing, as it is between two steps."""
        return await asyncio.get_running_loop().run_in_executor(self.worker, self._state.now)

    async def close(self, seconds: float) -> None:
        """Let those who are there end within so many seconds."""
        self.closing.set()
        await self.loop.close(seconds)

    @contextmanager
    def admitted(self, count: int) -> Iterator[None]:
        """Within the block so many requests are inside.

        Raises:
            Refusal: there is no room for them.
        """
        if self.closing.is_set():
            raise Refusal(503, "The server is shutting down.", code="shutting_down")
        try:
            self.gate.enter(count)
        except ValueError as error:
            raise wrong(f"{error}.", "n") from None
        except self._too_busy as error:
            for _ in range(count):
                self.metrics.refused()
            message = f"The server is busy. Try again in {error.seconds} s."
            headers = {"Retry-After": str(error.seconds)}
            raise Refusal(429, message, code="rate_limit_exceeded", headers=headers) from None
        try:
            yield
        finally:
            self.gate.leave(count)

    @contextmanager
    def counted(self, choices: list[Choice]) -> Iterator[None]:
        """Within the block the figures know of some requests."""
        for choice in choices:
            self.metrics.arrived(choice.request)
        reason = "failed"
        try:
            yield
            reason = "cancelled"
        except (asyncio.CancelledError, GeneratorExit):
            reason = "cancelled"
            raise
        finally:
            for choice in choices:
                self.scores.forget(choice.request)
                finished = choice.request.finished
                self.metrics.left(choice.request, finished if finished in ("stop", "length") else reason)

    async def choices(self, asked: Completion | Chat) -> list[Choice]:
        """The requests that are to be made of what a client asks.

        Raises:
            Refusal: they cannot be made.
        """
        prompts = await asyncio.to_thread(self._prompts, asked)
        return [
            self._choice(asked, prompt, number * asked.n + which, which)
            for number, prompt in enumerate(prompts)
            for which in range(asked.n)
        ]

    def stream(self, choices: list[Choice]) -> Any:
        """The learner's TextStream of their answers."""
        news: AsyncGenerator[Any, None] = self.loop.stream([choice.request for choice in choices])
        texts = {choice.request: choice.text for choice in choices}
        return self.engine.part("server.streaming", "TextStream")(news, texts)

    def figures(self) -> str:
        """For Prometheus."""
        scheduler, memory = self.engine.scheduler, self.engine.scheduler.memory
        gauges: dict[str, float] = {
            "running_requests": len(scheduler.running),
            "waiting_requests": len(scheduler.waiting),
        }
        gauges["slots"] = scheduler.slots
        if pool := getattr(memory, "pool", None):
            gauges |= {"pages": pool.pages, "free_pages": pool.free}
        if hasattr(memory, "asked"):
            gauges |= {"prefix_asked_tokens": memory.asked, "prefix_hit_tokens": memory.hit}
        text: str = self.metrics.exposition(gauges)
        return text

    def _prompts(self, asked: Completion | Chat) -> list[list[int]]:
        if isinstance(asked, Completion):
            if not asked.prompts:
                raise wrong("There is no prompt.", "prompt")
            return [self._fitting(asked, self._encoded(asked, p) if isinstance(p, str) else p) for p in asked.prompts]
        checkpoint = self.engine.checkpoint
        if checkpoint.chat_template is None:
            raise wrong(f"{self.name} has no chat template; it continues text: /v1/completions", "model")
        messages = [message.plain() for message in asked.messages]
        try:
            text = render_chat(checkpoint.chat_template, messages, checkpoint.special_tokens)
        except UsageError as error:
            raise wrong(str(error), "messages") from None
        return [self._fitting(asked, self._encoded(asked, text))]

    def _encoded(self, asked: Asked, text: str) -> list[int]:
        if len(text) > self.engine.context_length * self._longest_token:
            raise self._too_long(asked, f"The prompt has {len(text)} characters")  # nobody need count its tokens
        try:
            text.encode()
        except UnicodeEncodeError:
            message = "The prompt has half a character (a lone surrogate), and is no Unicode text."
            raise wrong(message, _prompt_of(asked)) from None
        with self.engine.learners_code():
            tokens: list[int] = self.engine.tokenizer.encode(text)
        return tokens

    def _fitting(self, asked: Asked, tokens: list[int]) -> list[int]:
        vocabulary = self.engine.checkpoint.config["vocab_size"]
        if not tokens:
            raise wrong("The prompt is empty, but a model continues at least one token.", "prompt")
        if odd := next((token for token in tokens if token >= vocabulary), 0):
            raise wrong(f"There is no token {odd}: the model has {vocabulary}.", "prompt")
        room, wanted = self.engine.context_length - len(tokens), asked.insisted or 1
        if room < wanted:
            raise self._too_long(asked, f"The prompt has {_tokens(len(tokens))}, and {_tokens(wanted)} must follow")
        return tokens

    def _too_long(self, asked: Asked, what: str) -> Refusal:
        message = f"{what}, but the model's context has {self.engine.context_length} tokens."
        return wrong(message, _prompt_of(asked), "context_length_exceeded")

    def _choice(self, asked: Completion | Chat, prompt: list[int], index: int, which: int) -> Choice:
        engine, part = self.engine, self.engine.part
        given = {
            "temp": asked.temperature,
            "top_k": asked.top_k,
            "top_p": asked.top_p,
            "min_p": asked.min_p,
            "repetition_penalty": asked.repetition_penalty,
            "seed": None if asked.seed is None else asked.seed + which,
        }
        given = {name: value for name, value in given.items() if value is not None}
        room = engine.context_length - len(prompt)
        with engine.learners_code():
            text = part("serving.stopping", "StopStrings")(self._detokenizer(), asked.stops)
            request = part("serving.request", "Request")(
                list(prompt),
                min(asked.most or room, room),
                part("serving.request", "SamplingParams")(**{"temp": 1.0, **engine.checkpoint.sampling, **given}),
                eos_ids=() if asked.ignore_eos else engine.checkpoint.eos_ids,
                stop=text.ends,
                user=asked.user or "",
            )
        scores = None if asked.scored is None else self.scores.ask(request, asked.scored)
        return Choice(index, request, text, scores)

    def _detokenizer(self) -> Any:
        make = self.engine.part("tokenizer", "StreamingDetokenizer")
        return _Shown(make(self.engine.tokenizer, skip_special_tokens=False), self.engine.checkpoint.hidden_ids)


def _tokens(count: int) -> str:
    return f"{count} token{'' if count == 1 else 's'}"


def _prompt_of(asked: Asked) -> str:
    return "messages" if isinstance(asked, Chat) else "prompt"


class _Shown:
    """A StreamingDetokenizer that shows nothing for a checkpoint's hidden tokens."""

    def __init__(self, inner: Any, hidden: frozenset[int]) -> None:
        self._inner, self._hidden = inner, hidden

    def add(self, token: int) -> str:
        shown: str = "" if token in self._hidden else self._inner.add(token)
        return shown

    def finish(self) -> str:
        shown: str = self._inner.finish()
        return shown
