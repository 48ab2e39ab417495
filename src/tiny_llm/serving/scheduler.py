"""Continuous batching: before every step it is decided anew which requests take part in it."""

import itertools
from bisect import insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from .memory import Memory
from .plans import whole_prompts
from .queue import FirstComeFirstServed
from .request import Chunk, Request
from .sampling import sample_rows

Model = Callable[[list[Chunk], Memory], mx.array]  # R x V, a row for each token that is asked for
Plan = Callable[[Sequence[Request], int], list[Chunk]]  # of those that run, the oldest first, and the budget
Choose = Callable[[mx.array, list[Chunk]], list[list[int]]]  # the new tokens of each chunk


@dataclass
class Step:
    """What one step has done."""

    chunks: list[Chunk] = field(default_factory=list)  # what was read
    new: list[list[int]] = field(default_factory=list)  # of each chunk, the tokens that its text has gained
    admitted: list[Request] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    finished: list[Request] = field(default_factory=list)


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
        waiting: FirstComeFirstServed | None = None,
        static: bool = False,
    ) -> None:
        """Begin with nobody.

        Args:
            model: reads chunks, and scores what follows them.
            memory: where their keys and values are.
            slots: how many requests run at most.
            budget: how many tokens a step reads; the plan keeps to it.
            plan: cuts what is unread into chunks.
            choose: chooses next tokens of logits.
            waiting: says who is let in next; None for first come, first served.
            static: whether nobody is let in before all that run have ended: how it was done before.
        """
        self.model, self.memory, self.slots, self.budget = model, memory, slots, budget
        self.plan, self.choose, self.static = plan, choose, static
        self.waiting = FirstComeFirstServed() if waiting is None else waiting
        self.running: list[Request] = []  # the oldest first
        self._numbers = itertools.count()

    def submit(self, request: Request) -> None:
        """Let a request wait for its turn.

        Raises:
            ValueError: it has no prompt, or could never be served; the message says why.
        """
        if not request.prompt:
            raise ValueError("the prompt is empty, but a model continues at least one token")
        self.memory.check(request)
        request.number = next(self._numbers)
        self.waiting.add(request)

    def cancel(self, request: Request) -> None:
        """End a request wherever it is; what it had in memory is free at once. One that has ended stays as it is."""
        if request.finished:
            return
        if request in self.running:
            self._leave(request, "cancelled")
        else:
            self.waiting.remove(request)
            request.finished = "cancelled"

    def step(self) -> Step:
        """Let in whom there is room for, read a chunk of each, and give each that is through a next token.

        Returns:
            What was done: nothing, if there is nobody.
        """
        step = Step()
        self._admit(step)
        for chunk in self.plan(self.running, self.budget):
            # Whoever an older one has put back does not run any more.
            if chunk.request in self.running and self.make_room(chunk, step):
                step.chunks.append(chunk)
        # A younger one may have been put back after its chunk was taken.
        step.chunks = [chunk for chunk in step.chunks if chunk.request in self.running]
        if not step.chunks:
            return step
        try:
            logits = self.model(step.chunks, self.memory)
            chosen = self.choose(logits, step.chunks)
        except BaseException:
            for chunk in step.chunks:
                self.memory.shorten(chunk.request, chunk.start)
            raise
        for chunk, tokens in zip(step.chunks, chosen, strict=True):
            self._advance(chunk, tokens, step)
        return step

    def make_room(self, chunk: Chunk, step: Step) -> bool:
        """Reserve room for a chunk. While there is none, the youngest that runs is put back, to be read anew later.

        Args:
            chunk: of a request that runs.
            step: is told who was put back.

        Returns:
            Whether there is room: not if the youngest was the chunk's own request.
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

    def _admit(self, step: Step) -> None:
        while self.waiting and len(self.running) < self.slots and not (self.static and self.running and not step.admitted):
            request = self.waiting.next()
            if not self.memory.begin(request):
                break
            self.waiting.remove(request)
            insort(self.running, request, key=lambda one: one.number)
            step.admitted.append(request)

    def _advance(self, chunk: Chunk, tokens: list[int], step: Step) -> None:
        """Count what was read, and give the request its new tokens, up to where it ends."""
        request, gained = chunk.request, len(tokens)
        # Of several tokens that were scored, those behind the first wrong guess were read in vain.
        request.read = chunk.end - (chunk.scored - gained if chunk.scored else 0)
        self.waiting.charge(request, len(chunk.tokens))
        reason, new = "", []
        for token in tokens:
            if token in request.eos_ids:
                reason = "stop"
                break
            request.output.append(token)
            new.append(token)
            if request.stop and request.stop(token):
                reason = "stop"
                break
            if len(request.output) == request.max_tokens:
                reason = "length"
                break
        step.new.append(new)
        if reason:
            self._leave(request, reason)
            step.finished.append(request)
        elif request.read < chunk.end:
            self.memory.shorten(request, request.read)

    def _leave(self, request: Request, reason: str) -> None:
        request.finished = reason
        self.running.remove(request)
        self.memory.release(request)
