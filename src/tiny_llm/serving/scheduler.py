"""Continuous batching: before every step it is decided anew which requests take part in it."""

import itertools

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
        raise NotImplementedError("3.1.5 The scheduler's step")

    def make_room(self, chunk: Chunk, step: Step) -> bool:
        """There is no room for a chunk: put back the youngest that runs, to be read anew later, until there is.

        Args:
            chunk: of a request that runs.
            step: is told who was put back.

        Returns:
            Whether there is room now, which is then reserved: not if the youngest was the chunk's own request.
        """
        raise NotImplementedError("3.3.4 Preemption")

    def _leave(self, request: Request, reason: str) -> None:
        request.finished = reason
        self.running.remove(request)
        self.memory.release(request)
