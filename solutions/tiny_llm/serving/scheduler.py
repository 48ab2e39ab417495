"""Continuous batching: before every step it is decided anew which requests take part in it."""

import itertools
from bisect import insort

import mlx.core as mx

from .memory import Memory
from .plans import whole_prompts
from .queue import FirstComeFirstServed, Queue
from .request import Chunk, Request
from .sampling import sample_rows
from .step import Choose, Model, Plan
from .step import Step as Step


class Scheduler:
    """Serves many requests, a step at a time."""

    def __init__(
        self,
        model: Model,
        memory: Memory,
        *,
        slots: int = 8,
        budget: int = 512,
        plan: Plan = whole_prompts,
        choose: Choose = sample_rows,
        waiting: Queue | None = None,
        static: bool = False,
    ) -> None:
        """Begin with nobody.

        Args:
            model: reads chunks, and scores what follows them.
            memory: where their keys and values are.
            slots: how many requests run at most.
            budget, plan: the plan cuts what is unread into chunks, of about so many tokens together.
            choose: chooses next tokens of logits.
            waiting: says who is let in next; None for first come, first served.
            static: whether nobody is let in before all that run have ended: how it was done before.
        """
        self.model, self.memory, self.slots, self.budget = model, memory, slots, budget
        self.plan, self.choose, self.static = plan, choose, static
        self.waiting: Queue = FirstComeFirstServed() if waiting is None else waiting
        self.running: list[Request] = []  # the oldest first
        self._numbers = itertools.count()

    def submit(self, request: Request) -> None:
        """Let a request wait for its turn.

        Raises:
            ValueError: it has no prompt, asks for no token, or could never be served; the message says why.
        """
        if not request.prompt or request.max_tokens < 1:
            raise ValueError(f"{len(request.prompt)} tokens, {request.max_tokens} to follow: each must be 1 at least")
        self.memory.check(request)
        request.number = next(self._numbers)
        self.waiting.add(request)

    def cancel(self, request: Request) -> None:
        """End a request wherever it is; what it had in memory is free at once. One that has ended stays as it is."""
        if request in self.running:
            self._leave(request, "cancelled")
        elif not request.finished:
            self.waiting.remove(request)
            request.finished = "cancelled"

    def step(self) -> Step:
        """Let in whom there is room for, read a chunk of each, and give each that is through its next token.

        `Step` says how: whom it lets in, what is read and what is written. If the model raises an error, memory has of
        each request what its `read` says: the next step tries again.
        """
        step, closed = Step(), self.static and bool(self.running)
        while self.waiting and len(self.running) < self.slots and not closed:
            request = self.waiting.next()
            if not self.memory.begin(request):
                break
            self.waiting.remove(request)
            insort(self.running, request, key=lambda one: one.number)
            step.admitted.append(request)
        for chunk in self.plan(self.running, self.budget):
            if chunk.request not in self.running:
                continue  # an older one has put it back
            if self.memory.reserve(chunk.request, len(chunk.tokens)) or self.make_room(chunk, step):
                step.chunks.append(chunk)
        step.chunks = [chunk for chunk in step.chunks if chunk.request in self.running]  # not those put back since
        if not step.chunks:
            return step
        try:
            logits = self.model(step.chunks, self.memory)
            mx.eval(logits)  # now, also if it has no rows, as within a long prompt
            for chunk, tokens in zip(step.chunks, self.choose(logits, step.chunks), strict=True):
                request = chunk.request
                new, reason = _grown(request, tokens)
                step.new.append(new)
                if request.finished:  # somebody has cancelled it meanwhile, and its memory is gone
                    continue
                # Of several that were scored, those behind the first wrong guess were read in vain.
                request.read = min(chunk.end - max(0, chunk.scored - len(tokens)), request.length)
                if request.read < chunk.end:
                    self.memory.shorten(request, request.read)
                self.waiting.charge(request, len(chunk.tokens))
                if reason:
                    self._leave(request, reason)
                    step.finished.append(request)
        except BaseException:
            for request in self.running:
                self.memory.shorten(request, request.read)
            raise
        return step

    def make_room(self, chunk: Chunk, step: Step) -> bool:
        """There is no room for a chunk: put back the youngest that runs, to be read anew later, until there is.

        Args:
            chunk: of a request that runs.
            step: is told who was put back.

        Returns:
            Whether there is room now, which is then reserved: not if the youngest was the chunk's own request.
        """
        while not self.memory.reserve(chunk.request, len(chunk.tokens)):
            youngest = self.running.pop()
            self.memory.release(youngest)
            youngest.read = 0
            self.waiting.put_back(youngest)
            step.preempted.append(youngest)
            if youngest is chunk.request:
                return False
        return True

    def _leave(self, request: Request, reason: str) -> None:
        request.finished = reason
        self.running.remove(request)
        self.memory.release(request)


def _grown(request: Request, tokens: list[int]) -> tuple[list[int], str]:
    """Append new tokens to a text, up to where it ends: those that it has gained, and why it has ended, or ""."""
    for count, token in enumerate(tokens):
        if request.finished or token in request.eos_ids:
            return tokens[:count], "stop"
        request.output.append(token)
        if request.stop and request.stop(token):
            return tokens[: count + 1], "stop"
        if len(request.output) >= request.max_tokens:
            return tokens[: count + 1], "length"
    return tokens, ""
