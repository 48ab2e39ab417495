"""Random arrivals, lengths, cancellations, preemptions, prefix hits and failures, against one request at a time."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.course.serving_machine import Machine
from tiny_llm_solution.paged.kv_cache import PagedKVCache
from tiny_llm_solution.prefix.kv_cache import PrefixKVCache
from tiny_llm_solution.serving.queue import FairQueue
from tiny_llm_solution.serving.scheduler import Scheduler

pytestmark = pytest.mark.maintainers
PLAYED = settings(
    max_examples=110,
    stateful_step_count=30,
    derandomize=True,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
FOUND = settings(PLAYED, phases=[Phase.generate])

MEMORIES = {"paged": PagedKVCache, "prefix": PrefixKVCache}


def machine(make, scheduler=Scheduler, queue=None):
    """A machine of its own, whose counts begin at 0."""
    parts = {"make": make, "make_scheduler": scheduler, "make_queue": queue, "steps": type(Machine.steps)()}
    return type("Played", (Machine,), parts)


@pytest.mark.parametrize(("memory", "queue"), [("paged", None), ("prefix", None), ("prefix", FairQueue)])
def test_any_requests_at_once_are_as_each_alone(memory, queue):
    """And in 10,000 steps no page is lost, none is shared by accident, and nobody starves."""
    played = machine(MEMORIES[memory], queue=queue)
    run_state_machine_as_test(played, settings=PLAYED)
    assert played.steps["steps"] >= 10_000
    assert all(played.steps[name] >= 200 for name in ("requests", "preemptions", "cancelled", "failures"))
    assert memory == "paged" or played.steps["hit"] > 0


class ShortenForgetsADrop(PagedKVCache):
    def truncate(self, request, length):
        del self.block_tables[request][self.pages_for(length) :]


class ReleaseForgetsADrop(PagedKVCache):
    def release(self, request):
        del self.block_tables[request]


class DropsWhatItKeeps(PagedKVCache):
    def truncate(self, request, length):
        table = self.block_tables[request]
        self.pool.release(table[self.pages_for(length) :])


class SharesAPage(PagedKVCache):
    """Whoever comes second writes into the first page of the one before."""

    def admit(self, request):
        others = list(self.block_tables.values())
        begun = super().admit(request)
        if begun and others:
            self.pool.release(self.block_tables[request][:1])
            self.pool.retain(others[-1][:1])
            self.block_tables[request][0] = others[-1][0]
        return begun


class CutsAHalfPage(PagedKVCache):
    def truncate(self, request, length):
        super().truncate(request, length // self.storage.page_size * self.storage.page_size)


class ReservesWhatThereIs(PagedKVCache):
    def reserve(self, request, count):
        if not super().reserve(request, count):
            self.block_tables[request] += self.pool.allocate(self.pool.num_free)[:-1]
            return False
        return True


class ChecksThePrompt(PagedKVCache):
    def validate(self, request):
        if self.pages_for(len(request.prompt)) > self.pool.pages:
            raise ValueError("too long")


class KeepsWhatIsUnread(PrefixKVCache):
    def release(self, request):
        request.num_computed_tokens = min(request.num_tokens, len(self.block_tables[request]) * self.storage.page_size)
        super().release(request)


class FindsWithoutHolding(PrefixKVCache):
    def admit(self, request):
        begun = super().admit(request)
        if begun:
            self.pool.release(self.block_tables[request][: request.num_computed_tokens // self.storage.page_size])
        return begun


class TheOldestGoes(Scheduler):
    def preempt_until_reserved(self, chunk, step):
        self.running.reverse()
        try:
            return super().preempt_until_reserved(chunk, step)
        finally:
            self.running.reverse()


class LastInTheQueue(Scheduler):
    def preempt_until_reserved(self, chunk, step):
        self.waiting.requeue = self.waiting.add
        return super().preempt_until_reserved(chunk, step)


class NothingIsRolledBack(Scheduler):
    def step(self):
        shorten, self.kv_cache.truncate = self.kv_cache.truncate, lambda request, length: None
        try:
            return super().step()
        finally:
            self.kv_cache.truncate = shorten


FAULTS = [
    ShortenForgetsADrop,
    ReleaseForgetsADrop,
    DropsWhatItKeeps,
    SharesAPage,
    CutsAHalfPage,
    ReservesWhatThereIs,
    ChecksThePrompt,
    KeepsWhatIsUnread,
    FindsWithoutHolding,
    TheOldestGoes,
    LastInTheQueue,
    NothingIsRolledBack,
]


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault):
    memory, scheduler = (PagedKVCache, fault) if issubclass(fault, Scheduler) else (fault, Scheduler)
    with pytest.raises((AssertionError, ValueError, KeyError, IndexError)):
        run_state_machine_as_test(machine(memory, scheduler), settings=FOUND)
