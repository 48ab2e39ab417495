"""Week 3, day 5, task 3: the prefix cache.

The KV cache is checked against one that knows which tokens each page holds.
"""

import copy
from types import SimpleNamespace

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.week1.formulas import attention64
from tests.week3.played_tree import BLUE, BLUE_DOG, CAT, DOG, IS, RED, THAT, A, texts_of
from tests.week3.prefixes import edges_of
from tests.week3.remembering import Contents, Remembering

from tiny_llm.paged import pool, storage
from tiny_llm.prefix import kv_cache
from tiny_llm.serving.request import Request, next_chunk
from tiny_llm_course.testkit.agreement import compare
from tiny_llm_course.testkit.cases import noted, type_words
from tiny_llm_course.testkit.errors import Kind, fail, fail_if_different
from tiny_llm_course.testkit.inputs import normals
from tiny_llm_course.testkit.properties import property_test
from tiny_llm_course.testkit.rounding import to_float64
from tiny_llm_course.testkit.sizes import sizes


class Serving:
    """Requests that are admitted, computed and released, by a KV cache and by a plain one beside it.

    After each operation the two are compared; for every page, its holders and its contents are known.
    """

    def __init__(self, page=2, pages=20, swept=False):
        self.case_begins = f"page {page}, {pages} pages"
        self.moves, self.swept = [], swept
        with noted(self.case_begins):
            self.kv_cache = kv_cache.PrefixKVCache(SimpleNamespace(page_size=page, pages=pages))
        self.plain, self.contents, self.page_size = Remembering(page, pages), Contents(page), page
        self.requests = {}
        self.check()

    @property
    def case(self):
        told = ", ".join([self.case_begins, *self.moves])
        return told if len(told) <= 300 else f"{self.case_begins}, .. {told[-260:]}"

    def fail(self, kind, headline, *lines):
        fail(kind, headline, self.case, *lines, size=len(self.case), swept=self.swept)

    def begin(self, name, *tokens):
        """Admit a request with these tokens; without tokens, one that was preempted before."""
        if tokens:
            self.requests[name] = Request([*tokens], 100)
        request = self.requests[name]
        request.num_computed_tokens = 0
        self.moves.append(f"admit {name} [{' '.join(map(str, request.tokens(0, request.num_tokens)))}]")
        before = copy.deepcopy(self.kv_cache.block_tables.get(request))
        with noted(self.case):
            actual = self.kv_cache.admit(request)
        expected, read = self.plain.admit(request)
        self.same(actual, expected, f"admit {name}")
        if not expected:
            if self.kv_cache.block_tables.get(request) != before:
                self.fail(Kind.VALUES, f"{name} is not admitted, but has a block table")
            if request.num_computed_tokens != 0:
                lines = ("expected  0", f"got       {request.num_computed_tokens}")
                self.fail(Kind.VALUES, f"{name} is not admitted, but its `num_computed_tokens` has changed", *lines)
        elif type(request.num_computed_tokens) is not int or request.num_computed_tokens != read:
            self.fail(
                Kind.VALUES,
                f"wrong `num_computed_tokens` of {name}",
                f"expected  {read}",
                f"got       {request.num_computed_tokens}",
            )
        self.check()
        return expected

    def read(self, name, count=None, *new):
        """Compute some of its tokens, or all; then append the `new` ones."""
        request = self.requests[name]
        count = request.num_uncomputed_tokens if count is None else count
        self.moves.append(f"compute {count} of {name}" + (f", new {' '.join(map(str, new))}" if new else ""))
        with noted(self.case):
            actual = self.kv_cache.reserve(request, count)
        expected = self.plain.reserve(request, count)
        self.same(actual, expected, f"reserve for {name}")
        if expected:
            table, chunk = self.kv_cache.block_tables[request], next_chunk(request, count)
            for at in range(chunk.start, chunk.end):
                if self.kv_cache.pool.ref_count(table[at // self.page_size]) != 1:
                    self.fail(
                        Kind.VALUES,
                        f"token {at} of {name} is written into page {table[at // self.page_size]}, which is shared",
                    )
            self.contents.write(table, request, chunk.start, chunk.end)
            request.num_computed_tokens = chunk.end
            request.output += new
        self.check()
        return expected

    def reserve(self, name, count):
        """Reserve slots for tokens, some of which may never be computed."""
        self.moves.append(f"reserve {count} for {name}")
        with noted(self.case):
            actual = self.kv_cache.reserve(self.requests[name], count)
        self.same(actual, self.plain.reserve(self.requests[name], count), f"reserve for {name}")
        self.check()

    def release(self, name, finished=""):
        """Release the request, finished for this reason, or preempted."""
        self.moves.append(f"release {name}" + (f", which has finished: {finished}" if finished else ""))
        request = self.requests[name]
        request.finish_reason = finished
        with noted(self.case):
            self.kv_cache.release(request)
        self.plain.release(request)
        self.check()

    def serve(self, name, *tokens):
        """Serve a whole request alone, with one new token, which is not computed."""
        self.begin(name, *tokens)
        self.read(name, None, 99)
        self.release(name, "length")

    def same(self, actual, expected, what):
        if type(actual) is not bool:
            self.fail(Kind.TYPE, f"{what} returns {type_words(actual)}, expected a bool")
        if actual != expected:
            self.fail(Kind.VALUES, f"{what} returns {actual}, expected {expected}")

    def check(self):
        held, free = self.kv_cache.pool, self.kv_cache.pool.num_free
        with noted(self.case):
            try:
                known = [page for pages, _ in edges_of(self.kv_cache.tree).values() for page in pages]
            except ValueError as error:
                self.fail(Kind.VALUES, f"the tree is not valid: {error}")
        for name, request in self.requests.items():
            table = self.kv_cache.block_tables.get(request)
            if (table is None) != (request not in self.plain.block_tables):
                self.fail(Kind.VALUES, f"{name} has {'no' if table is None else 'still a'} block table")
            if table is None:
                continue
            expected = len(self.plain.block_tables[request])
            if len(table) != expected:
                self.fail(Kind.VALUES, f"{name} has {len(table)} pages, expected {expected}")
            at = self.contents.wrong(table, request, request.num_computed_tokens)
            if at is not None:
                self.fail(
                    Kind.VALUES,
                    f"token {at} of {name} is not the one cached in page {table[at // self.page_size]}",
                )
        all_held = known + [page for table in self.kv_cache.block_tables.values() for page in table]
        for page in range(held.pages):
            if held.ref_count(page) != (count := all_held.count(page)):
                lines = ("its holders are the tree and the block tables that list it",)
                self.fail(
                    Kind.VALUES, f"page {page} has reference count {held.ref_count(page)}, expected {count}", *lines
                )
        of_tree = len(self.plain.known.pages)
        if len(known) != of_tree:
            self.fail(Kind.VALUES, f"the tree has {len(known)} pages, expected {of_tree}")
        if free != self.plain.free:
            self.fail(Kind.VALUES, f"{free} pages are free, expected {self.plain.free}")
        counted = self.kv_cache.queried_tokens, self.kv_cache.hit_tokens
        if counted != (self.plain.queried_tokens, self.plain.hit_tokens):
            expected = f"expected  {self.plain.queried_tokens}, {self.plain.hit_tokens}"
            self.fail(
                Kind.VALUES,
                "wrong `queried_tokens` and `hit_tokens`",
                expected,
                f"got       {counted[0]}, {counted[1]}",
            )
        rate = self.plain.hit_tokens / self.plain.queried_tokens if self.plain.queried_tokens else 0.0
        if abs(self.kv_cache.hit_rate - rate) > 1e-9:
            self.fail(Kind.VALUES, f"hit_rate is {self.kv_cache.hit_rate}, expected {rate}")


def test_task_3_prefix_the_same_again():
    """`That is a blue dog`, twice: two pages match, and the fifth token is recomputed."""
    serving = Serving()
    serving.serve("one", *BLUE_DOG)
    serving.serve("two", *BLUE_DOG)


@pytest.mark.parametrize("count", range(1, 8))
def test_task_3_prefix_leaves_a_token(count):
    """Of a sequence of three cached pages, one that ends with them, or earlier, or later."""
    serving = Serving()
    serving.serve("one", THAT, IS, A, BLUE, DOG, CAT, RED)
    serving.serve("two", *[THAT, IS, A, BLUE, DOG, CAT, RED][:count])


def test_task_3_prefix_of_several_lengths():
    serving = Serving()
    serving.serve("one", *BLUE_DOG, CAT)
    serving.serve("two", THAT, IS, A, RED, DOG)
    serving.serve("three", THAT, IS, A, BLUE, CAT)
    serving.serve("four", CAT, IS, A, BLUE, DOG)


def test_task_3_prefix_a_second_turn():
    """A chat: the answer was also computed, except for its last token, and the next turn matches it."""
    serving = Serving()
    serving.begin("one", THAT, IS, A)
    serving.read("one", None, BLUE)
    serving.read("one", None, DOG)
    serving.read("one", None, RED)
    serving.release("one")
    serving.serve("two", *BLUE_DOG, RED, CAT, CAT)


def test_task_3_prefix_of_a_running_request():
    """Before any request has finished, computed pages match."""
    serving = Serving()
    serving.begin("one", *BLUE_DOG)
    serving.read("one", 3)
    serving.begin("two", *BLUE_DOG)
    serving.read("one", None, RED)
    serving.begin("three", *BLUE_DOG)
    for name in ("two", "three", "one"):
        serving.read(name, None, CAT)
    for name in ("one", "three", "two"):
        serving.release(name)


def test_task_3_prefix_only_computed_pages():
    """A request is admitted and its pages are still empty: the next one matches nothing."""
    serving = Serving()
    serving.begin("one", *BLUE_DOG)
    serving.begin("two", *BLUE_DOG)
    serving.release("one")
    serving.begin("three", *BLUE_DOG)
    serving.read("three", 3)
    serving.release("three")
    serving.begin("four", *BLUE_DOG)


def test_task_3_prefix_computed_twice():
    """Both compute the same prompt, as neither could match it. Then one set of pages is enough for both."""
    serving = Serving()
    serving.begin("one", *BLUE_DOG)
    serving.begin("two", *BLUE_DOG)
    serving.read("one", None, RED)
    serving.read("two", None, CAT)
    serving.begin("three", CAT)
    serving.read("one", None, CAT)
    serving.read("two", None, CAT)
    for name in ("one", "three", "two"):
        serving.release(name)
    serving.serve("four", *BLUE_DOG, RED, CAT)


def test_task_3_prefix_evicts_on_admission():
    """The tree has all pages: it evicts as many as are missing, and no more."""
    serving = Serving(pages=6)
    serving.serve("one", *range(10, 16))
    serving.serve("two", *range(20, 26))
    serving.serve("three", *range(30, 34))
    serving.serve("four", *range(10, 13))


def test_task_3_prefix_evicts_on_reserve():
    serving = Serving(pages=5)
    serving.serve("one", *range(10, 16))
    serving.begin("two", *range(20, 23))
    for new in range(60, 68):
        serving.read("two", None, new)
    serving.release("two")


@pytest.mark.parametrize(("pages", "count"), [(5, 3), (6, 5)])
def test_task_3_prefix_evicts_only_missing_pages(pages, count):
    """Slots for a draft: its first token goes into a page that is half full, and 3 more into a page that is free."""
    serving = Serving(pages=pages)
    serving.serve("one", *range(10, 16))
    serving.begin("two", *range(20, 23))
    serving.read("two", None, 23)
    serving.reserve("two", count)
    serving.reserve("two", 1)


def test_task_3_prefix_match_is_an_access():
    """All of a sequence is cached, but its last page is not queried: that one is the oldest, and is evicted first."""
    serving = Serving(pages=6)
    serving.serve("one", *range(10, 14))
    serving.serve("two", 20, 21)
    serving.begin("three", *range(10, 14))
    serving.release("three")
    serving.begin("four", *range(30, 38))
    serving.release("four")
    serving.begin("five", *range(10, 15))


def test_task_3_prefix_does_not_evict_its_match():
    """The matched sequence is the oldest one, and the pool is full."""
    serving = Serving(pages=6)
    serving.serve("one", *range(10, 16))
    serving.serve("two", *range(20, 26))
    serving.serve("three", *range(10, 16), 16, 17, 18)


def test_task_3_prefix_needs_no_pages_for_its_match():
    """One request holds five of six pages, and another shares them."""
    serving = Serving(pages=7)
    serving.begin("one", *range(10, 20))
    serving.read("one", None, 20)
    assert serving.begin("two", *range(10, 21))
    serving.read("two", None, 30)


def test_task_3_prefix_not_admitted():
    """Nothing is counted, nothing is retained. It is tried again, and admitted once there is capacity."""
    serving = Serving(pages=6)
    serving.serve("one", *range(10, 14))
    serving.begin("two", *range(10, 17))
    serving.read("two", None, 17)
    for _ in range(2):
        serving.begin("three", *range(10, 18), 30, 31)
    serving.release("two")
    serving.begin("three")
    serving.read("three", None, 40)


def test_task_3_prefix_leaves_a_page_for_running_requests():
    serving = Serving(pages=4)
    serving.begin("one", 1, 2, 3)
    serving.read("one", None, 4)
    serving.begin("two", 5, 6, 7)
    serving.begin("three", 5, 6)


def test_task_3_prefix_no_capacity_to_decode():
    """Two requests hold all pages: none can be evicted. One is preempted, and later matches its own pages."""
    serving = Serving(pages=6)
    serving.begin("one", *range(10, 14))
    serving.begin("two", *range(20, 23))
    serving.read("one", None, 14)
    serving.read("two", None, 23)
    for new in range(24, 27):
        serving.read("two", None, new)
    serving.read("one", None, 15)
    serving.read("one", None, 16)
    serving.release("two")
    serving.read("one", None, 16)
    serving.begin("two")
    serving.release("one")
    serving.begin("two")
    serving.read("two", None, 30)


def test_task_3_prefix_rejects_without_side_effects():
    """Of a request that is not admitted, not even num_computed_tokens changes."""
    serving, request = Serving(pages=3), Request([*range(30, 35)], 100)
    serving.serve("one", *range(10, 14))
    serving.begin("two", *range(20, 23))
    request.num_computed_tokens = 2
    case = f"{serving.case}, admit another request of 5 tokens, whose num_computed_tokens is 2"
    with noted(case):
        admitted = serving.kv_cache.admit(request)
    fail_if_different("the request is admitted", False, admitted, case)
    fail_if_different("`num_computed_tokens` of the request has changed", 2, request.num_computed_tokens, case)


def test_task_3_prefix_uses_the_given_pool():
    """The pool that is passed in, also for the tree, or a new one of as many pages as the storage has."""
    case = "a storage of 5 pages, and another pool"
    with noted(case):
        shared, pages = pool.PagePool(5), SimpleNamespace(page_size=2, pages=5)
        one, other = kv_cache.PrefixKVCache(pages, shared), kv_cache.PrefixKVCache(pages)
        found = [one.pool is shared, one.tree.pool is shared, other.pool.num_free, other.tree.pool is other.pool]
    what = "wrong: same pool, same pool in the tree; of a new pool, num_free, and same pool in the tree"
    fail_if_different(what, [True, True, 5, True], found, case)


def test_task_3_prefix_two_caches():
    """Two caches are independent."""
    one, other = Serving(), Serving()
    one.serve("one", *BLUE_DOG)
    other.serve("one", *BLUE_DOG)


@pytest.mark.parametrize("page", [1, 3, 16])
def test_task_3_prefix_other_pages(page):
    serving = Serving(page, pages=12)
    for name, count in (("one", 4 * page), ("two", 4 * page + 1), ("three", 2 * page - 1), ("four", 6 * page)):
        serving.serve(name, *range(10, 10 + count))


def test_task_3_prefix_attends():
    """One KV head: a request attends to matched pages as if it had computed them."""
    draw, page, heads, dims = normals(1), 2, 3, 4
    keys, values = draw(1, 9, dims), draw(1, 9, dims)  # of the tokens, whichever request computes them
    arrays = storage.PagedArrays(1, 12, page, 1, dims, mx.float32)
    case = "float32, 3 heads over one of keys, D 4, page 2, seed 1: the tokens 0 to 6, then 0 to 8, of which 6 match"
    with noted(case):
        remembering = kv_cache.PrefixKVCache(arrays)
    for count, name in ((7, "the first"), (9, "the second")):
        request = Request(list(range(count)), 1)
        query = draw(count, heads, dims)
        with noted(case):
            remembering.admit(request)
            start = request.num_computed_tokens
            remembering.reserve(request, request.num_uncomputed_tokens)
            new = slice(start, count)
            inputs = query[new], keys[0, new, None], values[0, new, None]
            actual = remembering.attend(0, *inputs, [next_chunk(request, request.num_uncomputed_tokens)])
            request.num_computed_tokens = count
            remembering.release(request)
        mask = np.where(np.tri(count) == 1, 0.0, -np.inf)
        three = (query.swapaxes(0, 1), keys[:, :count], values[:, :count])
        expected = attention64(*map(to_float64, three), mask=mask)
        compare(actual, expected.swapaxes(0, 1)[start:], mx.float32, 1e-5, f"{case}; {name}", count * dims)


def played_at_random(serving, generator, steps, texts):
    """Requests arrive, prefill, decode, are preempted and finish, in any order."""
    waiting, running = [], []
    for number in range(steps):
        match int(generator.integers(5)):
            case 0 | 1 if len(running) < 4:
                if waiting:
                    name = waiting[0]
                    came = serving.begin(name)
                else:
                    name = f"r{number}"
                    text = texts[int(generator.integers(len(texts)))]
                    came = serving.begin(name, *text)
                    waiting.append(name)
                if came:
                    running.append(name)
                    waiting.remove(name)
            case 2 | 3 if running:
                name = running[int(generator.integers(len(running)))]
                unread = serving.requests[name].num_uncomputed_tokens
                count = int(generator.integers(1, unread + 1))
                new = [int(generator.integers(3))] if count == unread else []
                if not serving.read(name, count, *new):
                    youngest = running.pop()
                    serving.release(youngest)
                    waiting.insert(0, youngest)
            case 4 if running and number % 2:
                name = running.pop(int(generator.integers(len(running))))
                serving.release(name, "stop")
    for name in running:
        serving.release(name)


def test_task_3_prefix_sweep():
    for n in sizes(P=17, L=64, T=5):
        generator = np.random.default_rng(n.seed)
        texts = [text or [1] for text in texts_of(generator, n.T, n.L, n.turn(2, 50, 3))]
        longest = max(map(len, texts))
        pages = n.turn(2, 1, 5) * (longest // n.P + 2) + 2
        played_at_random(Serving(n.P, pages, swept=True), generator, 24, texts)


@property_test
@given(seed=st.integers(0, 10**6), page=st.integers(1, 3), pages=st.integers(8, 20), alphabet=st.integers(1, 3))
def test_task_3_prefix_any_requests(seed, page, pages, alphabet):
    """In the end no request is left: all pages are free or the tree's, and all of the tree's can be evicted."""
    generator = np.random.default_rng(seed)
    texts = [text or [1] for text in texts_of(generator, 6, 7, alphabet)]
    serving = Serving(page, pages)
    played_at_random(serving, generator, 30, [text[: page * pages] for text in texts])
    serving.kv_cache.pool.release(page for pages, _ in edges_of(serving.kv_cache.tree).values() for page in pages)
    if serving.kv_cache.pool.num_free != pages:
        serving.fail(Kind.VALUES, f"{serving.kv_cache.pool.num_free} of {pages} pages are free after a full eviction")
