"""Week 3, day 3: the page pool, what pages cost, block tables, preemption.

A pool, a memory and a scheduler are played scripts of calls. What comes of each call is held to a plain model of lists
and counts, and attention over pages to the formula of each request alone.
"""

from functools import partial

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import grouped64
from tests.week1.reference_model import QWEN3, QWEN25
from tests.week3.played import (
    Shelves,
    memory_script,
    plain_memory,
    plain_pool,
    plain_preemption,
    play_memory,
    play_pool,
    play_preemption,
    played_alike,
    pool_script,
    request_of,
)

from tiny_llm.config import ModelConfig
from tiny_llm.paged import memory, pool, sizes, storage
from tiny_llm.serving import request, scheduler
from tiny_llm_course.testkit.agreement import agrees
from tiny_llm_course.testkit.cases import noted
from tiny_llm_course.testkit.errors import Kind, fail, raises_value_error
from tiny_llm_course.testkit.inputs import DTYPES, normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import exact
from tiny_llm_course.testkit.sizes import sizes as drawn_sizes
from tiny_llm_course.testkit.texts import same_number

seeds = st.integers(0, 9999)


# Task 1, the pool


def pool_plays(pages, *script):
    play = partial(play_pool, lambda count: pool.PagePool(count))
    played_alike(play, plain_pool, {"pages": pages}, script)


def test_task_1_pool_takes_the_lowest():
    """Also of those that have come back, in whatever order."""
    pool_plays(6, ("take", 2), ("take", 0), ("take", 3), ("drop", [3, 0, 2]), ("take", 2), ("take", 2), ("take", 0))


def test_task_1_pool_gives_all_or_nothing():
    pool_plays(4, ("take", 5), ("take", 3), ("take", 2), ("take", 1), ("take", 1), ("take", 0))


def test_task_1_pool_shares():
    """A page is free when the last holder has dropped it, and no sooner."""
    pool_plays(4, ("take", 3), ("hold", [1, 2]), ("hold", [1]), ("drop", [0, 1, 2]), ("take", 1), ("drop", [1, 2]))
    pool_plays(3, ("take", 2), ("hold", [0]), ("drop", [0]), ("drop", [0]), ("take", 2))


def test_task_1_pool_counts_twice_what_stands_there_twice():
    pool_plays(3, ("take", 2), ("hold", [1, 1]), ("drop", [1, 1]), ("drop", [1]), ("take", 2))
    pool_plays(4, ("take", 3), ("hold", [1]), ("drop", [1, 0, 1]), ("take", 2), ("take", 1))


def test_task_1_pool_refuses_to_drop_what_nobody_holds():
    """And nothing has changed, wherever in the list it stands, nor if it is there once and dropped twice."""
    pool_plays(4, ("take", 3), ("drop", [1]), ("drop", [1]), ("drop", [0, 1]), ("drop", [1, 2]), ("take", 2))
    pool_plays(4, ("take", 3), ("drop", [2, 2]), ("drop", [0, 2, 1, 2]), ("hold", [2]), ("drop", [2, 2, 2]))


def test_task_1_pool_refuses_to_share_what_is_free():
    pool_plays(4, ("take", 2), ("hold", [2]), ("hold", [0, 3]), ("hold", [3, 1]), ("take", 2))


def test_task_1_pool_of_iterators():
    """Pages may come as something that can be gone through once."""
    pool_plays(4, ("take", 4), ("hold", (0, 1)), ("drop", (0, 1, 2)), ("drop", (1, 2)), ("drop", (3, 1, 0)))


def test_task_1_pool_says_what_is_wrong():
    case = "5 pages, take(3), take(3)"
    with noted(case):
        one = pool.PagePool(5)
        one.take(3)
    with raises_value_error(case, "3", "2"):
        one.take(3)
    try:
        one.take(3)
    except ValueError as error:
        if (kind := type(error).__name__) != "OutOfPages":
            fail(Kind.NO_ERROR, f"raised {kind}, expected OutOfPages", case)
    with raises_value_error("5 pages, take(3), drop([0, 4])", "4"):
        one.drop([0, 4])
    with raises_value_error("5 pages, take(3), hold([0, 4])", "4"):
        one.hold([0, 4])
    same_number(one.pages, 5, "pages", "5 pages, take(3)")


def test_task_1_pool_keeps_no_list():
    """Who changes the list that take has given changes no pool; and two pools know nothing of one another."""
    case = "two pools of 3, take(2) of the first, and the list is emptied"
    with noted(case):
        one, other = pool.PagePool(3), pool.PagePool(3)
        one.take(2).clear()
        counts = [one.free, other.free, one.holders(0), other.holders(0)]
    if counts != [1, 3, 1, 0]:
        lines = "expected  [1, 3, 1, 0]", f"got       {counts}"
        fail(Kind.VALUES, "free of both, and the holders of page 0 in both, are wrong", case, *lines)


@property_test
@given(pages=st.integers(1, 6), calls=st.integers(1, 20), seed=seeds)
def test_task_1_pool_any_calls(pages, calls, seed):
    pool_plays(pages, *pool_script(seed, pages, calls))


def test_task_1_pool_sweep():
    for n in drawn_sizes(P=1100, C=40):
        pool_plays(n.P, *pool_script(n.seed, n.P, n.C))


# Task 2, what pages cost


def config_of(base=QWEN3, **changes):
    return ModelConfig.from_dict({**base, **changes})


def config_words(config):
    names = ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim")
    return ", ".join(f"{name} {getattr(config, name)}" for name in names)


def sizes_agree(config, page, dtype, lengths, longest, caps):
    """All figures, by arrays of the same shapes, of which MLX says how many bytes they take."""
    case = f"{config_words(config)}, page {page}, {dtype}, requests of {lengths} tokens"

    def room(tokens):
        shape = (config.num_key_value_heads, tokens, config.head_dim)
        return 2 * config.num_hidden_layers * mx.zeros(shape, dtype).nbytes

    with noted(case):
        found = sizes.PageSizes(config, page, dtype)
    same_number(found.token_bytes, room(1), "token_bytes", case)
    same_number(found.page_bytes, room(page), "page_bytes", case)
    for cap in caps:
        cap = int(cap * room(page))
        with noted(f"{case}, cap {cap}"):
            fitting = found.pages_within(cap)
        same_number(fitting, cap // room(page), f"pages_within({cap})", case)
    with noted(case):
        waste, reserved = found.waste(iter(lengths)), found.reserved_waste(iter(lengths), longest)
    used = sum(map(room, lengths))
    taken = sum(room(next(p for p in range(0, n + page, page) if p >= n)) for n in lengths)
    same_number(waste, taken - used, f"waste({lengths})"[:60], case)
    same_number(reserved, len(lengths) * room(longest) - used, f"reserved_waste({lengths}, {longest})"[-60:], case)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("base", [QWEN3, QWEN25], ids=["qwen3", "qwen2.5"])
def test_task_2_sizes_by_arrays(base, dtype):
    """Five layers, six heads that share three of keys and values, and H * D is not E."""
    config = config_of(base, num_hidden_layers=5)
    sizes_agree(config, 4, dtype, [5, 1, 8, 11], 24, (1, 1.5, 2, 7.99, 100))


def test_task_2_sizes_of_a_blue_dog():
    """Five tokens in pages of four, in the model of 0.6 billion parameters: 28 layers, 8 heads of keys, 128 numbers."""
    config = config_of(num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8, head_dim=128)
    case = f"{config_words(config)}, page 4, float16"
    with noted(case):
        found = sizes.PageSizes(config, 4, mx.float16)
        figures = [found.token_bytes, found.page_bytes, found.waste([5]), found.reserved_waste([5], 40)]
    same_number(figures[0], 114688, "token_bytes", case)
    same_number(figures[1], 458752, "page_bytes", case)
    same_number(figures[2], 344064, "waste([5])", case)
    same_number(figures[3], 4014080, "reserved_waste([5], 40)", case)


def test_task_2_sizes_in_float32_where_nothing_is_said():
    found = sizes.PageSizes(config_of(), 2)
    same_number(found.token_bytes, 2 * 2 * 3 * 8 * 4, "token_bytes", f"{config_words(config_of())}, page 2")


@pytest.mark.parametrize("lengths", [[], [4], [4, 8, 12], [3], [1, 1, 1], [9, 4, 7], [0, 5]], ids=str)
def test_task_2_sizes_waste(lengths):
    """Of each request by itself; a last page that is full wastes nothing."""
    sizes_agree(config_of(), 4, mx.float16, lengths, 12, ())


def test_task_2_sizes_refuses_what_does_not_fit():
    found = sizes.PageSizes(config_of(), 4)
    case = f"{config_words(config_of())}, page 4, float32"
    for cap in (0, 1535):
        with raises_value_error(f"{case}, pages_within({cap})", "1536", str(cap)):
            found.pages_within(cap)
    with raises_value_error(f"{case}, reserved_waste([3, 9, 2], 8)", "9", "8"):
        found.reserved_waste([3, 9, 2], 8)


@property_test
@given(page=st.integers(1, 9), lengths=st.lists(st.integers(0, 40), max_size=6), layers=st.integers(1, 4))
def test_task_2_sizes_any(page, lengths, layers):
    sizes_agree(config_of(num_hidden_layers=layers), page, mx.bfloat16, lengths, 40, (1, 3.2))


def test_task_2_sizes_sweep():
    for n in drawn_sizes(M=40, K=40, D=257, P=1100):
        config = config_of(num_hidden_layers=n.M, num_key_value_heads=n.K, num_attention_heads=2 * n.K, head_dim=n.D)
        sizes_agree(config, n.P, n.turn(*DTYPES), [n.P, 1, n.P + 1, 3 * n.P - 1], 4 * n.P, (1, 2.5))


# Task 3, block tables


def memory_plays(page, pages, *script):
    play = partial(play_memory, lambda shelves: memory.PagedMemory(shelves))
    played_alike(play, plain_memory, {"page": page, "pages": pages}, script)


def begun(who, prompt, *written):
    return ("request", who, prompt, *written), ("begin", who)


def test_task_3_memory_blue_dog():
    """`That is a blue dog` in pages of four, and then one token after another."""
    steps = [call for _ in range(5) for call in (("write", "a", 1), ("reserve", "a", 1), ("read", "a", 1))]
    memory_plays(4, 6, *begun("a", 5), ("reserve", "a", 5), ("read", "a", 5), *steps, ("release", "a"))


def test_task_3_memory_lets_in_whom_there_is_room_for():
    """Pages for all tokens, and one that stays free for each request that is here."""
    memory_plays(4, 7, *begun("a", 5), *begun("b", 8), *begun("c", 5), *begun("d", 1), *begun("e", 4), ("release", "a"))
    memory_plays(4, 2, *begun("a", 8), *begun("b", 1), ("release", "a"), ("begin", "b"))


def test_task_3_memory_refuses_and_changes_nothing():
    """Not even how much the request says that it has read."""
    script = (*begun("a", 5), ("request", "b", 3), ("read", "b", 2), ("begin", "b"), ("release", "a"), ("begin", "b"))
    memory_plays(4, 2, *script)


def test_task_3_memory_alone_it_may_have_all():
    memory_plays(3, 4, *begun("a", 12), ("reserve", "a", 12), ("read", "a", 12), ("release", "a"), *begun("b", 13))


def test_task_3_memory_begins_anew_with_what_was_written():
    """A request that was put back brings its output along, which has to be read again."""
    memory_plays(
        4, 5, *begun("a", 3, 6), ("reserve", "a", 9), ("release", "a"), ("request", "b", 4, 17), ("begin", "b")
    )
    memory_plays(4, 5, *begun("a", 3), ("read", "a", 3), ("release", "a"), ("begin", "a"), ("reserve", "a", 1))


def test_task_3_memory_reserves_what_is_missing():
    """In parts, and for several tokens at once."""
    parts = [call for count in (2, 2, 1, 5, 3) for call in (("reserve", "a", count), ("read", "a", count))]
    memory_plays(3, 6, *begun("a", 3), *parts)


def test_task_3_memory_reserves_all_or_nothing():
    script = (*begun("a", 4), *begun("b", 3), ("read", "a", 4), ("read", "b", 3), ("reserve", "b", 1))
    memory_plays(2, 5, *script, ("reserve", "a", 3), ("reserve", "a", 1), ("release", "b"), ("reserve", "a", 5))


def test_task_3_memory_reserves_twice():
    """Room that is there need not be taken again: a step has failed, and comes once more."""
    memory_plays(
        2, 6, *begun("a", 3), ("reserve", "a", 3), ("reserve", "a", 3), ("reserve", "a", 5), ("reserve", "a", 2)
    )


@pytest.mark.parametrize("length", [0, 1, 3, 4, 5, 8, 9])
def test_task_3_memory_shortens(length):
    """To the middle of a page and to its end; afterwards it can grow again."""
    script = (*begun("a", 9), *begun("b", 2), ("reserve", "a", 9), ("shorten", "a", length))
    memory_plays(4, 6, *script, *begun("c", 3), ("reserve", "a", 9))


def test_task_3_memory_rolls_back():
    """A step fails: what was reserved for it is given back, and nobody else's pages are touched."""
    script = (*begun("a", 4), ("read", "a", 4), *begun("b", 4), ("read", "b", 4))
    memory_plays(4, 6, *script, ("reserve", "a", 1), ("reserve", "b", 5), ("shorten", "b", 4), ("shorten", "a", 4))


def test_task_3_memory_drops_and_does_not_free():
    """What somebody else holds as well stays where it is."""
    script = (*begun("a", 5), ("others_hold", "a"), ("release", "a"))
    memory_plays(4, 4, *script, *begun("b", 5), ("others_hold", "b"), ("shorten", "b", 0))
    memory_plays(4, 4, ("others_take", 2), *begun("c", 5), ("reserve", "c", 9))


def test_task_3_memory_checks():
    """By all pages, whoever has them now."""
    checks = [("check", prompt, new) for prompt, new in ((5, 7), (5, 8), (5, 9), (12, 0), (1, 12), (13, 1), (1, 11))]
    memory_plays(4, 3, *checks, *begun("a", 9), *checks)
    with raises_value_error("3 pages of 4 places, a prompt of 8 tokens, max_tokens 5", "13", "12", "tokens", "room"):
        memory.PagedMemory(Shelves(4, 3)).check(request_of(8, 5))


def test_task_3_memory_takes_a_pool():
    """The one that it is given, or a new one of as many pages as the storage has."""
    case = "a storage of 5 pages, and the pool of somebody else"
    with noted(case):
        shared, shelves = pool.PagePool(5), Shelves(4, 5)
        one, other = memory.PagedMemory(shelves, shared), memory.PagedMemory(shelves)
        found = [one.pool is shared, one.storage is shelves, other.pool.pages, other.pool.free, len(other.tables)]
    if found != (expected := [True, True, 5, 5, 0]):
        what = "pool is the one that was given, storage too, and of a new one pages, free and tables"
        fail(Kind.VALUES, what, case, f"expected  {expected}", f"got       {found}")


def test_task_3_memory_hands_on():
    """Who attends is the storage, with the tables of the chunks' requests in the chunks' order."""
    case = "requests a and b, a layer's attend for chunks of b and then of a"
    with noted(case):
        shelves = Shelves(2, 9)
        one = memory.PagedMemory(shelves)
        a, b = request_of(3), request_of(2)
        for each in (a, b):
            one.begin(each)
        chunks = [request.Chunk(each, 0, [1], 0) for each in (b, a)]
        answer = one.attend(7, *(arrays := [mx.zeros((2, 1, 1))] * 3), chunks)
    expected = [7, *arrays, chunks, [[2], [0, 1]]]
    if answer != "attended" or len(shelves.asked) != 1:
        fail(Kind.VALUES, "attend does not give what the storage gives", case)
    for name, was, wanted in zip(
        ("layer", "query", "key", "value", "chunks", "tables"), shelves.asked[0], expected, strict=True
    ):
        if was is not wanted and was != wanted:
            fail(Kind.VALUES, f"the storage is given other {name}", case, f"expected  {wanted}", f"got       {was}")


@property_test
@given(page=st.integers(1, 5), pages=st.integers(1, 8), calls=st.integers(1, 15), seed=seeds)
def test_task_3_memory_any_calls(page, pages, calls, seed):
    memory_plays(page, pages, *memory_script(seed, page, pages, calls))


def test_task_3_memory_sweep():
    for n in drawn_sizes(L=70, P=300, C=40):
        memory_plays(n.L, n.P, *memory_script(n.seed, n.L, n.P, n.C))


class Lengths(list[int]):
    """Of several requests."""


def attended(query, key, value, lengths, page, most=3):
    """Requests one behind the other, T x H x D, read in rounds of `most` tokens of each, where another one has been."""
    pages = sum(lengths) + 9
    kept = storage.PagedArrays(2, pages, page, key.shape[1], key.shape[2], key.dtype)
    one, other = memory.PagedMemory(kept), request_of(2 * page + 1)
    one.begin(other)
    requests = [request_of(length) for length in lengths]
    if refused := next((each for each in requests if not one.begin(each)), None):
        case = f"{pages} pages of {page} places, where a request of {other.length} tokens is; requests of {lengths}"
        fail(Kind.VALUES, f"begin says that there is no room for the request of {refused.length} tokens", case)
    fill = [mx.concatenate([x[:1]] * other.length) for x in (query, key, value)]
    mx.eval(one.attend(1, *fill, [request.Chunk(other, 0, [0] * other.length, 0)]))
    one.release(other)
    starts = np.cumsum([0, *lengths]).tolist()
    found = [[] for _ in lengths]
    while any(each.unread for each in requests):
        here = [i for i, each in enumerate(requests) if each.unread]
        chunks = [request.next_chunk(requests[i], min(most, requests[i].unread)) for i in here]
        for chunk in chunks:
            one.reserve(chunk.request, len(chunk.tokens))
        rows = [slice(starts[i] + chunk.start, starts[i] + chunk.end) for i, chunk in zip(here, chunks, strict=True)]
        seen = one.attend(1, *(mx.concatenate([x[row] for row in rows]) for x in (query, key, value)), chunks)
        at = 0
        for i, chunk in zip(here, chunks, strict=True):
            found[i].append(seen[at : (at := at + len(chunk.tokens))])
            chunk.request.read = chunk.end
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
def test_task_3_memory_attends(page, dtype):
    """Requests of several lengths, through pages that somebody else has written to before."""
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
def test_task_3_memory_attends_any(lengths, page, most, seed):
    draw, total = normals(seed), sum(lengths)
    query, key, value = draw(total, 4, 3), draw(total, 2, 3), draw(total, 2, 3)
    agrees(attended, attended64, query, key, value, Lengths(lengths), page, most, seed=seed)


# Task 4, preemption


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
