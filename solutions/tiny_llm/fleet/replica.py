"""A simulated replica: the real scheduler and KV cache, without a model. Nothing here is yours to write."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import mlx.core as mx

from ..paged.kv_cache import PagedKVCache
from ..prefix.kv_cache import PrefixKVCache
from ..router.replica import Replica
from ..serving.kv_cache import KVCacheManager
from ..serving.policies import shared_prefill
from ..serving.request import Chunk, Request
from ..serving.scheduler import Scheduler
from .jobs import Job

Duration = Callable[[Sequence[Chunk], int], float]  # takes a step's chunks and the number of busy replicas
NO_LOGITS = mx.zeros((0,))
TOKEN = 0  # every output token: the simulation counts tokens, and needs no others


class Resources(NamedTuple):
    """The limits of a replica."""

    max_num_seqs: int = 8  # running requests
    max_num_batched_tokens: int = 64  # token budget of a step
    pages: int = 4096  # of the KV cache
    page_size: int = 16  # tokens per page
    prefix_cache: bool = True
    limit: int = 1 << 30  # running and waiting requests that the router allows


@dataclass(eq=False)
class RunningStep:
    """A step that takes some time: which requests get a token when it ends, and which of these it finishes."""

    seconds: float
    tokens: list[tuple[int, bool]] = field(default_factory=list)  # the number of a request; whether it has ended


class SimulatedReplica:
    """A replica of a simulated fleet. `view` is what the router sees of it."""

    current: RunningStep | None  # the step that runs now; None while it is idle or dead

    def __init__(self, name: str, duration: Duration, resources: Resources = Resources()) -> None:  # noqa: B008
        """Create an idle replica with empty caches.

        Args:
            name: of the replica; differs from all others in the fleet.
            duration: returns the seconds of a step.
            resources: its limits.
        """
        self.name, self._duration, self._resources = name, duration, resources
        self.view = Replica(name, "ready", limit=resources.limit)
        self.current = None
        self._empty()

    @property
    def can_start(self) -> bool:
        """Whether it is idle and has requests."""
        return self.current is None and bool(self._jobs)

    def submit(self, number: int, job: Job) -> None:
        """Add a request, which the next step may admit. `number` identifies it in `RunningStep.tokens`."""
        request = Request(list(job.prompt), job.max_tokens)
        self._scheduler.submit(request)
        self._jobs[request] = number
        if job.cached:
            self._transferred[request] = job.cached
        self.view.running += 1
        self.view.prefixes.add(job.blocks)

    def start_step(self, busy: int) -> RunningStep:
        """Start a step, which becomes `current`, and return it.

        Args:
            busy: how many replicas run a step now, this one included: those of one machine share its cores.
        """
        step = self._scheduler.step()
        self.current = RunningStep(self._duration(step.chunks, busy))
        for chunk, new in zip(step.chunks, step.new, strict=True):
            if new:
                ended = bool(chunk.request.finish_reason)
                number = self._jobs.pop(chunk.request) if ended else self._jobs[chunk.request]
                self.current.tokens.append((number, ended))
        return self.current

    def end_step(self) -> list[tuple[int, bool]]:
        """End the current step; return its `tokens`."""
        assert self.current
        tokens, self.current = self.current.tokens, None
        self.view.running -= sum(ended for _, ended in tokens)
        return tokens

    def fail(self) -> None:
        """Die: the current step and all requests are gone, and the router sees the state "dead"."""
        self._empty()
        self.current, self.view.state, self.view.running = None, "dead", 0
        self.view.prefixes.clear()

    def restart(self) -> None:
        """Be ready again, with empty caches."""
        self.view.state = "ready"

    def _empty(self) -> None:
        limits = self._resources
        kind = PrefixKVCache if limits.prefix_cache else PagedKVCache
        self._jobs: dict[Request, int] = {}
        self._transferred: dict[Request, int] = {}
        self._scheduler = Scheduler(
            lambda chunks, kv_cache: NO_LOGITS,
            cast(KVCacheManager, _Transferred(kind(_NoStorage(limits.page_size, limits.pages)), self._transferred)),
            max_num_seqs=limits.max_num_seqs,
            max_num_batched_tokens=limits.max_num_batched_tokens,
            policy=shared_prefill,
            sampler=lambda logits, chunks: [[TOKEN] if chunk.num_logits else [] for chunk in chunks],
        )


class _NoStorage:
    """Pages without contents."""

    def __init__(self, page_size: int, pages: int) -> None:
        self.page_size, self.pages = page_size, pages

    def attend(self, *_: object) -> mx.array:
        raise AssertionError("a simulated step computes nothing")


class _Transferred:
    """A KV cache in which some requests arrive with their keys and values."""

    def __init__(self, kv_cache: KVCacheManager, transferred: dict[Request, int]) -> None:
        self._kv_cache, self._counts = kv_cache, transferred

    def __getattr__(self, name: str) -> object:
        return getattr(self._kv_cache, name)

    def admit(self, request: Request) -> bool:
        """Admit a request; what was transferred is computed already, unless it is preempted later."""
        if admitted := self._kv_cache.admit(request):
            request.num_computed_tokens = max(request.num_computed_tokens, self._counts.pop(request, 0))
        return admitted
