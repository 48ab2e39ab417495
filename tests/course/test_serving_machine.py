"""Random arrivals, lengths, cancellations, preemptions, prefix hits and failures, against one request at a time."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.course.serving_machine import Machine
from tiny_llm_solution.paged.memory import PagedMemory
from tiny_llm_solution.prefix.memory import PrefixMemory
from tiny_llm_solution.serving.queue import FairQueue
from tiny_llm_solution.serving.scheduler import Scheduler

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

MEMORIES = {"paged": PagedMemory, "prefix": PrefixMemory}


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


class ShortenForgetsADrop(PagedMemory):
    def shorten(self, request, length):
        del self.tables[request][self.pages_for(length) :]


class ReleaseForgetsADrop(PagedMemory):
    def release(self, request):
        del self.tables[request]


class DropsWhatItKeeps(PagedMemory):
    def shorten(self, request, length):
        table = self.tables[request]
        self.pool.drop(table[self.pages_for(length) :])


class SharesAPage(PagedMemory):
    """Whoever comes second writes into the first page of the one before."""

    def begin(self, request):
        others = list(self.tables.values())
        begun = super().begin(request)
        if begun and others:
            self.pool.drop(self.tables[request][:1])
            self.pool.hold(others[-1][:1])
            self.tables[request][0] = others[-1][0]
        return begun


class CutsAHalfPage(PagedMemory):
    def shorten(self, request, length):
        super().shorten(request, length // self.storage.page * self.storage.page)


class ReservesWhatThereIs(PagedMemory):
    def reserve(self, request, count):
        if not super().reserve(request, count):
            self.tables[request] += self.pool.take(self.pool.free)[:-1]
            return False
        return True


class ChecksThePrompt(PagedMemory):
    def check(self, request):
        if self.pages_for(len(request.prompt)) > self.pool.pages:
            raise ValueError("too long")


class KeepsWhatIsUnread(PrefixMemory):
    def release(self, request):
        request.read = min(request.length, len(self.tables[request]) * self.storage.page)
        super().release(request)


class FindsWithoutHolding(PrefixMemory):
    def begin(self, request):
        begun = super().begin(request)
        if begun:
            self.pool.drop(self.tables[request][: request.read // self.storage.page])
        return begun


class TheOldestGoes(Scheduler):
    def make_room(self, chunk, step):
        self.running.reverse()
        try:
            return super().make_room(chunk, step)
        finally:
            self.running.reverse()


class LastInTheQueue(Scheduler):
    def make_room(self, chunk, step):
        self.waiting.put_back = self.waiting.add
        return super().make_room(chunk, step)


class NothingIsRolledBack(Scheduler):
    def step(self):
        shorten, self.memory.shorten = self.memory.shorten, lambda request, length: None
        try:
            return super().step()
        finally:
            self.memory.shorten = shorten


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
    memory, scheduler = (PagedMemory, fault) if issubclass(fault, Scheduler) else (fault, Scheduler)
    with pytest.raises((AssertionError, ValueError, KeyError, IndexError)):
        run_state_machine_as_test(machine(memory, scheduler), settings=FOUND)
