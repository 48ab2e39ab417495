"""Continuous batching: every step decides anew which requests are in the batch."""

import itertools
from bisect import insort

import mlx.core as mx

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
        step, closed = Step(), self.static and bool(self.running)
        while self.waiting and len(self.running) < self.max_num_seqs and not closed:
            request = self.waiting.peek()
            if not self.kv_cache.admit(request):
                break
            self.waiting.remove(request)
            insort(self.running, request, key=lambda one: one.request_id)
            step.admitted.append(request)
        for chunk in self.policy(self.running, self.max_num_batched_tokens):
            if chunk.request not in self.running:
                continue  # preempted for an older request
            if self.kv_cache.reserve(chunk.request, len(chunk.tokens)) or self.preempt_until_reserved(chunk, step):
                step.chunks.append(chunk)
        step.chunks = [chunk for chunk in step.chunks if chunk.request in self.running]  # drop those preempted since
        if not step.chunks:
            return step
        try:
            logits = self.model(step.chunks, self.kv_cache)
            mx.eval(logits)  # now, even without rows, as within a long prompt
            for chunk, tokens in zip(step.chunks, self.sampler(logits, step.chunks), strict=True):
                request = chunk.request
                new, reason = _append_tokens(request, tokens)
                step.new.append(new)
                if request.finish_reason:  # cancelled by its `stop`: its KV cache is freed already
                    continue
                # Tokens after the first rejected draft token were computed in vain.
                kept = chunk.end - max(0, chunk.num_logits - len(tokens))
                request.num_computed_tokens = min(kept, request.num_tokens)
                if request.num_computed_tokens < chunk.end:
                    self.kv_cache.truncate(request, request.num_computed_tokens)
                self.waiting.charge(request, len(chunk.tokens))
                if reason:
                    self._leave(request, reason)
                    step.finished.append(request)
        except BaseException:
            for request in self.running:
                self.kv_cache.truncate(request, request.num_computed_tokens)
            raise
        return step

    def preempt_until_reserved(self, chunk: Chunk, step: Step) -> bool:
        """Preempt the youngest running request, to be recomputed later, until the chunk's KV slots can be reserved.

        Args:
            chunk: of a running request.
            step: records the preempted requests. `num_computed_tokens` becomes 0 once their KV cache is released.

        Returns:
            Whether the slots are reserved: not if the chunk's own request had to be preempted.
        """
        while not self.kv_cache.reserve(chunk.request, len(chunk.tokens)):
            youngest = self.running.pop()
            self.kv_cache.release(youngest)
            youngest.num_computed_tokens = 0
            self.waiting.requeue(youngest)
            step.preempted.append(youngest)
            if youngest is chunk.request:
                return False
        return True

    def _leave(self, request: Request, reason: str) -> None:
        request.finish_reason = reason
        self.running.remove(request)
        self.kv_cache.release(request)


def _append_tokens(request: Request, tokens: list[int]) -> tuple[list[int], str]:
    """Append new tokens up to where the output ends; return those appended, and the finish reason or ""."""
    for count, token in enumerate(tokens):
        if request.finish_reason or token in request.eos_ids:
            return tokens[:count], "stop"
        request.output.append(token)
        if request.stop and request.stop(token):
            return tokens[: count + 1], "stop"
        if len(request.output) >= request.max_tokens:
            return tokens[: count + 1], "length"
    return tokens, ""
