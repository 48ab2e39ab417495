"""Week 3, day 3, task 3: block tables.

A KV cache replays scripts of calls. The results of each call are checked against a plain model of lists and counts, and
attention over pages against the formula of each request alone.
"""

from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import grouped64
from tests.week3.played import (
    Shelves,
    memory_script,
    plain_memory,
    play_memory,
    played_alike,
    request_of,
)

from tiny_llm.paged import kv_cache, pool, storage
from tiny_llm.serving import request
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact
from tiny_llm_course.testkit.sizes import sizes as drawn_sizes
from tiny_llm_course.testkit.texts import same_number

seeds = st.integers(0, 9999)


def memory_plays(page, pages, *script):
    play = partial(play_memory, lambda shelves: kv_cache.PagedKVCache(shelves))
    played_alike(play, plain_memory, {"page": page, "pages": pages}, script)


def begun(who, prompt, *written):
    return ("request", who, prompt, *written), ("admit", who)


def test_task_3_paged_blue_dog():
    """`That is a blue dog` in pages of four, and then one token after another."""
    steps = [call for _ in range(5) for call in (("write", "a", 1), ("reserve", "a", 1), ("read", "a", 1))]
    memory_plays(4, 6, *begun("a", 5), ("reserve", "a", 5), ("read", "a", 5), *steps, ("release", "a"))


def test_task_3_paged_admits():
    """Pages for all tokens, and one that stays free for each running request."""
    memory_plays(4, 7, *begun("a", 5), *begun("b", 8), *begun("c", 5), *begun("d", 1), *begun("e", 4), ("release", "a"))
    memory_plays(4, 2, *begun("a", 8), *begun("b", 1), ("release", "a"), ("admit", "b"))


def test_task_3_paged_rejects_without_side_effects():
    """Not even the request's num_computed_tokens."""
    script = (*begun("a", 5), ("request", "b", 3), ("read", "b", 2), ("admit", "b"), ("release", "a"), ("admit", "b"))
    memory_plays(4, 2, *script)


def test_task_3_paged_alone_may_use_all_pages():
    memory_plays(3, 4, *begun("a", 12), ("reserve", "a", 12), ("read", "a", 12), ("release", "a"), *begun("b", 13))


def test_task_3_paged_readmits_with_output():
    """A preempted request returns with its output, which must be recomputed."""
    memory_plays(
        4, 5, *begun("a", 3, 6), ("reserve", "a", 9), ("release", "a"), ("request", "b", 4, 17), ("admit", "b")
    )
    memory_plays(4, 5, *begun("a", 3), ("read", "a", 3), ("release", "a"), ("admit", "a"), ("reserve", "a", 1))


def test_task_3_paged_reserves_missing_pages():
    """In parts, and for several tokens at once."""
    parts = [call for count in (2, 2, 1, 5, 3) for call in (("reserve", "a", count), ("read", "a", count))]
    memory_plays(3, 6, *begun("a", 3), *parts)


def test_task_3_paged_reserves_all_or_nothing():
    script = (*begun("a", 4), *begun("b", 3), ("read", "a", 4), ("read", "b", 3), ("reserve", "b", 1))
    memory_plays(2, 5, *script, ("reserve", "a", 3), ("reserve", "a", 1), ("release", "b"), ("reserve", "a", 5))


def test_task_3_paged_reserves_twice():
    """Existing capacity is not allocated again: a step has failed and is repeated."""
    memory_plays(
        2, 6, *begun("a", 3), ("reserve", "a", 3), ("reserve", "a", 3), ("reserve", "a", 5), ("reserve", "a", 2)
    )


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 8, 9])
def test_task_3_paged_truncates(length):
    """To the middle of a page and to its end; afterwards it can grow again."""
    script = (*begun("a", 9), *begun("b", 2), ("reserve", "a", 9), ("truncate", "a", length))
    memory_plays(4, 6, *script, ("reserve", "a", 1), *begun("c", 3), ("reserve", "a", 9))


def test_task_3_paged_rolls_back():
    """A step fails: what was reserved for it is freed, and no other request's pages change."""
    script = (*begun("a", 4), ("read", "a", 4), *begun("b", 4), ("read", "b", 4))
    memory_plays(4, 6, *script, ("reserve", "a", 1), ("reserve", "b", 5), ("truncate", "b", 4), ("truncate", "a", 4))


def test_task_3_paged_keeps_shared_pages():
    """A page with another holder stays where it is."""
    script = (*begun("a", 5), ("others_hold", "a"), ("release", "a"))
    memory_plays(4, 4, *script, *begun("b", 5), ("others_hold", "b"), ("truncate", "b", 0))
    memory_plays(4, 4, ("others_take", 2), *begun("c", 5), ("reserve", "c", 9))


def test_task_3_paged_validates():
    """Against all pages, whether or not they are free."""
    checks = [("validate", prompt, new) for prompt, new in ((5, 7), (5, 8), (5, 9), (12, 0), (1, 12), (13, 1), (1, 11))]
    memory_plays(4, 3, *checks, *begun("a", 9), *checks)
    with raises_value_error("3 pages of 4 slots, a prompt of 8 tokens, max_tokens 5", "13", "12"):
        kv_cache.PagedKVCache(Shelves(4, 3)).validate(request_of(8, 5))


@pytest.mark.parametrize("page", [1, 3, 4])
def test_task_3_paged_counts_pages(page):
    """`pages_for` rounds up; no tokens need no page."""
    one = kv_cache.PagedKVCache(Shelves(page, 9))
    for tokens in range(10):
        case = f"page {page}, pages_for({tokens})"
        with noted(case):
            found = one.pages_for(tokens)
        same_number(found, len(range(0, tokens, page)), "pages_for", case)


def test_task_3_paged_uses_the_given_pool():
    """The pool that is passed in, or a new one of as many pages as the storage has."""
    case = "a storage of 5 pages, and another pool"
    with noted(case):
        shared, shelves = pool.PagePool(5), Shelves(4, 5)
        one, other = kv_cache.PagedKVCache(shelves, shared), kv_cache.PagedKVCache(shelves)
        found = [
            one.pool is shared,
            one.storage is shelves,
            other.pool.pages,
            other.pool.num_free,
            len(other.block_tables),
        ]
    if found != (expected := [True, True, 5, 5, 0]):
        what = "wrong: same pool, same storage; of a new pool, pages, num_free and block_tables"
        fail(Kind.VALUES, what, case, f"expected  {expected}", f"got       {found}")


def test_task_3_paged_passes_block_tables():
    """The storage attends, with the block tables of the chunks' requests in the chunks' order."""
    case = "requests a and b, a layer's attend for chunks of b and then of a"
    with noted(case):
        shelves = Shelves(2, 9)
        one = kv_cache.PagedKVCache(shelves)
        a, b = request_of(3), request_of(2)
        for each in (a, b):
            one.admit(each)
        chunks = [request.Chunk(each, 0, [1], 0) for each in (b, a)]
        answer = one.attend(7, *(arrays := [mx.zeros((2, 1, 1))] * 3), chunks)
    expected = [7, *arrays, chunks, [[2], [0, 1]]]
    if answer != "attended" or len(shelves.asked) != 1:
        fail(Kind.VALUES, "attend does not return what the storage returns", case)
    for name, was, wanted in zip(
        ("layer", "query", "key", "value", "chunks", "tables"), shelves.asked[0], expected, strict=True
    ):
        if was is not wanted and was != wanted:
            fail(Kind.VALUES, f"the storage gets wrong {name}", case, f"expected  {wanted}", f"got       {was}")


@property_test
@given(page=st.integers(1, 5), pages=st.integers(1, 8), calls=st.integers(1, 15), seed=seeds)
def test_task_3_paged_any_calls(page, pages, calls, seed):
    memory_plays(page, pages, *memory_script(seed, page, pages, calls))


def test_task_3_paged_sweep():
    for n in drawn_sizes(L=70, P=300, C=40):
        memory_plays(n.L, n.P, *memory_script(n.seed, n.L, n.P, n.C))


class Lengths(list[int]):
    """Of several requests."""


def attended(query, key, value, lengths, page, most=3):
    """Attend for several requests, T x H x D, in rounds of `most` tokens each, in pages that another one has used."""
    pages = sum(lengths) + 9
    kept = storage.PagedArrays(2, pages, page, key.shape[1], key.shape[2], key.dtype)
    one, other = kv_cache.PagedKVCache(kept), request_of(2 * page + 1)
    one.admit(other)
    requests = [request_of(length) for length in lengths]
    if refused := next((each for each in requests if not one.admit(each)), None):
        case = f"{pages} pages of {page} slots, used before by {other.num_tokens} tokens; requests of {lengths}"
        fail(Kind.VALUES, f"admit returned False for the request of {refused.num_tokens} tokens", case)
    fill = [mx.concatenate([x[:1]] * other.num_tokens) for x in (query, key, value)]
    mx.eval(one.attend(1, *fill, [request.Chunk(other, 0, [0] * other.num_tokens, 0)]))
    one.release(other)
    starts = np.cumsum([0, *lengths]).tolist()
    found = [[] for _ in lengths]
    while any(each.num_uncomputed_tokens for each in requests):
        here = [i for i, each in enumerate(requests) if each.num_uncomputed_tokens]
        chunks = [request.next_chunk(requests[i], min(most, requests[i].num_uncomputed_tokens)) for i in here]
        for chunk in chunks:
            one.reserve(chunk.request, len(chunk.tokens))
        rows = [slice(starts[i] + chunk.start, starts[i] + chunk.end) for i, chunk in zip(here, chunks, strict=True)]
        seen = one.attend(1, *(mx.concatenate([x[row] for row in rows]) for x in (query, key, value)), chunks)
        at = 0
        for i, chunk in zip(here, chunks, strict=True):
            found[i].append(seen[at : (at := at + len(chunk.tokens))])
            chunk.request.num_computed_tokens = chunk.end
    return mx.concatenate([part for parts in found for part in parts])


def attended64(query, key, value, lengths, page, most=3, *, r=exact):
    """Each request alone, all its tokens at once."""
    found, at = [], 0
    for length in lengths:
        own = slice(at, at := at + length)
        q, k, v = (x[own].swapaxes(0, 1) for x in (query, key, value))
        found.append(grouped64(q, k, v, mask="causal", r=r).swapaxes(0, 1))
    return np.concatenate(found)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("page", [1, 3, 4, 16])
def test_task_3_paged_attends(page, dtype):
    """Requests of several lengths, in pages that other requests have written to before."""
    draw, lengths = normals(page, dtype), Lengths([5, 1, 8, 4])
    query, key, value = draw(18, 6, 5), draw(18, 3, 5), draw(18, 3, 5)
    agrees(attended, attended64, query, key, value, lengths, page, seed=page)


@property_test
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    page=st.integers(1, 6),
    most=st.integers(1, 9),
    seed=seeds,
)
def test_task_3_paged_attends_any(lengths, page, most, seed):
    draw, total = normals(seed), sum(lengths)
    query, key, value = draw(total, 4, 3), draw(total, 2, 3), draw(total, 2, 3)
    agrees(attended, attended64, query, key, value, Lengths(lengths), page, most, seed=seed)
