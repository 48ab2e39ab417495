"""Week 3, day 3, task 4: preemption.

A scheduler replays scripts of calls. The results of each call are checked against a plain model of lists and counts.
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

from tiny_llm.paged import kv_cache
from tiny_llm.serving import request, scheduler
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.sizes import sizes as drawn_sizes


def preemption_plays(places, read, *script):
    def play(places, read, script):
        preempt_until_reserved = scheduler.Scheduler.preempt_until_reserved
        return play_preemption(scheduler.Scheduler, preempt_until_reserved, scheduler.Step, places, read, script)

    played_alike(play, plain_preemption, {"places": places, "read": list(read)}, script)


def test_task_4_preemption_of_the_youngest():
    """Even if another one has computed more."""
    preemption_plays(12, [5, 4, 3], ("reserve", 0, 1))
    preemption_plays(18, [5, 9, 4], ("reserve", 0, 3))


def test_task_4_preemption_of_several():
    """They wait in order of arrival, before those that have waited all along."""
    preemption_plays(14, [5, 4, 3, 2], ("reserve", 0, 4))
    preemption_plays(15, [2, 5, 4, 2, 2], ("reserve", 1, 8))


def test_task_4_preemption_of_its_own_request():
    """No older one is preempted for it, and False is returned."""
    preemption_plays(12, [5, 4, 3], ("reserve", 2, 1), ("reserve", 0, 3))
    preemption_plays(14, [5, 4, 3, 2], ("reserve", 1, 7))


def test_task_4_preemption_of_the_last_request():
    preemption_plays(9, [5, 4], ("reserve", 0, 4), ("reserve", 0, 5))


def test_task_4_preemption_again_and_again():
    preemption_plays(
        16, [5, 4, 3, 4], ("reserve", 0, 1), ("reserve", 2, 2), ("reserve", 1, 5), ("reserve", 0, 9), ("reserve", 0, 2)
    )


def test_task_4_preemption_keeps_the_output():
    """The output is kept, and num_computed_tokens becomes 0."""
    preemption_plays(27, [9, 8, 10], ("reserve", 1, 2))


@property_test
@given(
    read=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    more=st.integers(0, 6),
    asks=st.integers(0, 4),
    count=st.integers(1, 12),
)
def test_task_4_preemption_any(read, more, asks, count):
    preemption_plays(sum(read) + more, read, ("reserve", asks % len(read), count))


def test_task_4_preemption_sweep():
    for n in drawn_sizes(R=130, L=70):
        read = [1 + (7 * i + n.seed) % n.L for i in range(n.R)]
        script = [("reserve", i, 1 + (n.seed + i) % n.L) for i in (n.R // 3, n.R // 5, 0)]
        preemption_plays(sum(read) + n.seed % 3, read, script[0])
        preemption_plays(sum(read) + n.seed % 3, read, script[2])


class Sums:
    """A model whose next token is a sum over a request's cached tokens, by the pages that they are in."""

    def __init__(self, page, case):
        self.places, self.case = {}, case
        self.page_size = page

    def __call__(self, chunks, kv_cache):
        rows = []
        for chunk in chunks:
            if chunk.request not in kv_cache.block_tables:
                number = chunk.request.request_id
                fail(Kind.VALUES, f"the model was given a chunk of request {number}, which was preempted", self.case)
            table = kv_cache.block_tables[chunk.request]
            for position, token in enumerate(chunk.tokens, chunk.start):
                self.places[table[position // self.page_size], position % self.page_size] = token
            if chunk.num_logits:
                tokens = [self.places[table[p // self.page_size], p % self.page_size] for p in range(chunk.end)]
                rows.append(mx.arange(11) == next_of(tokens))
        return mx.stack(rows).astype(mx.float32) if rows else mx.zeros((0, 11))


def likeliest(logits, chunks):
    tokens = iter(mx.argmax(logits, axis=-1).tolist() if logits.shape[0] else [])
    return [[next(tokens)] if chunk.num_logits else [] for chunk in chunks]


def next_of(tokens):
    return sum((i + 3) * token for i, token in enumerate(tokens)) % 11


@pytest.mark.parametrize(("page", "pages"), [(2, 9), (3, 6), (1, 17), (4, 4)])
def test_task_4_preemption_whole_runs(page, pages):
    """Five requests at once: each output is what it would be alone, and in the end all pages are free."""
    case = f"five requests, {pages} pages of {page} slots, a model that sums the tokens in the pages"
    with noted(case):
        shelves = kv_cache.PagedKVCache(Shelves(page, pages))
        one = scheduler.Scheduler(Sums(page, case), shelves, max_num_seqs=4, sampler=likeliest)
        requests = [request.Request([n + i for i in range(length)], 9) for n, length in enumerate((3, 1, 7, 4, 2))]
        for each in requests:
            one.submit(each)
        steps = 0
        while not all(each.finish_reason for each in requests):
            one.step()
            steps += 1
            if steps > 300:
                left = [each.request_id for each in requests if not each.finish_reason]
                fail(Kind.VALUES, f"after 300 steps, requests {left} have not finished", case)
    for each in requests:
        tokens = list(each.prompt)
        for _ in range(9):
            tokens.append(next_of(tokens))
        if each.output != tokens[len(each.prompt) :]:
            lines = f"expected  {tokens[len(each.prompt) :]}", f"got       {each.output}"
            fail(Kind.VALUES, f"request {each.request_id} has another output than alone", case, *lines)
    if shelves.pool.num_free != pages:
        lines = f"expected  {pages}", f"got       {shelves.pool.num_free}"
        fail(Kind.VALUES, "wrong number of free pages after all requests have finished", case, *lines)
