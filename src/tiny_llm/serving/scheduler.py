"""Continuous batching: every step decides anew which requests are in the batch."""

import itertools

from .kv_cache import KVCacheManager
from .policies import unchunked_prefill
from .queue import FirstComeFirstServed, Queue
from .request import Chunk, Request
from .sampling import sample_rows
from .step import Model, Policy, Sampler
from .step import Step as Step


class Scheduler:
    """Serves many requests, one step at a time."""

    def __init__(
        self,
        model: Model,
        kv_cache: KVCacheManager,
        *,
        max_num_seqs: int = 8,
        max_num_batched_tokens: int = 512,
        policy: Policy = unchunked_prefill,
        sampler: Sampler = sample_rows,
        queue: Queue | None = None,
        static: bool = False,
    ) -> None:
        """Create a scheduler with no requests.

        Args:
            model, kv_cache: compute the logits of chunks; store their keys and values.
            max_num_seqs: the maximum number of running requests.
            max_num_batched_tokens: the token budget of a step, which the policy is given.
            policy, sampler: select the chunks of a step; sample next tokens from logits.
            queue: decides which request is admitted next; None for first come, first served.
            static: whether to admit requests only when none is running: static batching.
        """
        self.model, self.kv_cache, self.policy, self.sampler = model, kv_cache, policy, sampler
        self.max_num_seqs, self.max_num_batched_tokens, self.static = max_num_seqs, max_num_batched_tokens, static
        self.waiting: Queue = FirstComeFirstServed() if queue is None else queue
        self.running: list[Request] = []  # the oldest first
        self._numbers = itertools.count()

    def submit(self, request: Request) -> None:
        """Add a request to the queue.

        Raises:
            ValueError: it has no prompt, asks for no token, or would not fit even alone; the message says why.
        """
        if not request.prompt or request.max_tokens < 1:
            raise ValueError(f"{len(request.prompt)} tokens, {request.max_tokens} to follow: each must be 1 at least")
        self.kv_cache.validate(request)
        request.request_id = next(self._numbers)
        self.waiting.add(request)

    def cancel(self, request: Request) -> None:
        """End a request, running or waiting, and free its KV cache at once. A finished request does not change."""
        if request in self.running:
            self._leave(request, "cancelled")
        elif not request.finish_reason:
            self.waiting.remove(request)
            request.finish_reason = "cancelled"

    def step(self) -> Step:
        """Admit waiting requests, run one step, and append each request's next token.

        `Step` specifies it. If the model raises an error, the KV cache is truncated to each request's
        `num_computed_tokens`, and the next step tries again.
        """
        raise NotImplementedError("3.1.5 The scheduler's step")

    def preempt_until_reserved(self, chunk: Chunk, step: Step) -> bool:
        """Preempt the youngest running request, to be recomputed later, until the chunk's KV slots can be reserved.

        Args:
            chunk: of a running request.
            step: records the preempted requests. `num_computed_tokens` becomes 0 once their KV cache is released.

        Returns:
            Whether the slots are reserved: not if the chunk's own request had to be preempted.
        """
        raise NotImplementedError("3.3.4 Preemption")

    def _leave(self, request: Request, reason: str) -> None:
        request.finish_reason = reason
        self.running.remove(request)
        self.kv_cache.release(request)
