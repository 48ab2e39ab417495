"""Week 3, day 3, task 4: preemption.

A scheduler is played scripts of calls. What comes of each call is held to a plain model of lists and counts.
"""

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week3.played import (
    Shelves,
    plain_preemption,
    play_preemption,
    played_alike,
)

from tiny_llm.paged import memory
from tiny_llm.serving import request, scheduler
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes as drawn_sizes


def preemption_plays(places, read, *script):
    def play(places, read, script):
        make_room = scheduler.Scheduler.make_room
        return play_preemption(scheduler.Scheduler, make_room, scheduler.Step, places, read, script)

    played_alike(play, plain_preemption, {"places": places, "read": list(read)}, script)


def test_task_4_preemption_the_youngest_goes():
    """Also where another has read more."""
    preemption_plays(12, [5, 4, 3], ("room", 0, 1))
    preemption_plays(18, [5, 9, 4], ("room", 0, 3))


def test_task_4_preemption_as_many_as_it_takes():
    """They wait in the order in which they came, before whoever has waited all along."""
    preemption_plays(14, [5, 4, 3, 2], ("room", 0, 4))
    preemption_plays(15, [2, 5, 4, 2, 2], ("room", 1, 8))


def test_task_4_preemption_of_the_one_that_asks():
    """No older one goes for it, and there is no room."""
    preemption_plays(12, [5, 4, 3], ("room", 2, 1), ("room", 0, 3))
    preemption_plays(14, [5, 4, 3, 2], ("room", 1, 7))


def test_task_4_preemption_when_nobody_else_is_left():
    preemption_plays(9, [5, 4], ("room", 0, 4), ("room", 0, 5))


def test_task_4_preemption_again_and_again():
    preemption_plays(16, [5, 4, 3, 4], ("room", 0, 1), ("room", 2, 2), ("room", 1, 5), ("room", 0, 9), ("room", 0, 2))


def test_task_4_preemption_leaves_the_output():
    """What was written is kept, and what was read is forgotten."""
    preemption_plays(27, [9, 8, 10], ("room", 1, 2))


@property_test
@given(
    read=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    more=st.integers(0, 6),
    asks=st.integers(0, 4),
    count=st.integers(1, 12),
)
def test_task_4_preemption_any(read, more, asks, count):
    preemption_plays(sum(read) + more, read, ("room", asks % len(read), count))


def test_task_4_preemption_sweep():
    for n in drawn_sizes(R=130, L=70):
        read = [1 + (7 * i + n.seed) % n.L for i in range(n.R)]
        script = [("room", i, 1 + (n.seed + i) % n.L) for i in (n.R // 3, n.R // 5, 0)]
        preemption_plays(sum(read) + n.seed % 3, read, script[0])
        preemption_plays(sum(read) + n.seed % 3, read, script[2])


class Sums:
    """A model whose next token is the sum of all that memory has of a request, by the pages that it is in."""

    def __init__(self, page):
        self.places = {}
        self.page = page

    def __call__(self, chunks, memory):
        rows = []
        for chunk in chunks:
            table = memory.tables[chunk.request]
            for position, token in enumerate(chunk.tokens, chunk.start):
                self.places[table[position // self.page], position % self.page] = token
            if chunk.scored:
                tokens = [self.places[table[p // self.page], p % self.page] for p in range(chunk.end)]
                rows.append(mx.arange(11) == next_of(tokens))
        return mx.stack(rows).astype(mx.float32) if rows else mx.zeros((0, 11))


def likeliest(logits, chunks):
    tokens = iter(mx.argmax(logits, axis=-1).tolist() if logits.shape[0] else [])
    return [[next(tokens)] if chunk.scored else [] for chunk in chunks]


def next_of(tokens):
    return sum((i + 3) * token for i, token in enumerate(tokens)) % 11


@pytest.mark.parametrize(("page", "pages"), [(2, 9), (3, 6), (1, 17), (4, 4)])
def test_task_4_preemption_whole_runs(page, pages):
    """Five requests at once: each text is what it would be alone, and in the end all pages are free."""
    case = f"five requests, {pages} pages of {page} places, a model that adds up what is in the pages"
    with noted(case):
        shelves = memory.PagedMemory(Shelves(page, pages))
        one = scheduler.Scheduler(Sums(page), shelves, slots=4, choose=likeliest)
        requests = [request.Request([n + i for i in range(length)], 9) for n, length in enumerate((3, 1, 7, 4, 2))]
        for each in requests:
            one.submit(each)
        steps = 0
        while not all(each.finished for each in requests):
            one.step()
            steps += 1
            if steps > 300:
                left = [each.number for each in requests if not each.finished]
                fail(Kind.VALUES, f"after 300 steps, requests {left} have not come to an end", case)
    for each in requests:
        tokens = list(each.prompt)
        for _ in range(9):
            tokens.append(next_of(tokens))
        if each.output != tokens[len(each.prompt) :]:
            lines = f"expected  {tokens[len(each.prompt) :]}", f"got       {each.output}"
            fail(Kind.VALUES, f"request {each.number} has another text than alone", case, *lines)
    if shelves.pool.free != pages:
        lines = f"expected  {pages}", f"got       {shelves.pool.free}"
        fail(Kind.VALUES, "pages are free when all requests have ended", case, *lines)
