"""Known programs of task 3.5.3, the prefix cache."""

import re
from types import SimpleNamespace

import mlx.core as mx
from tests.week3.prefixes import edges_of, numbers
from tiny_llm_solution.paged.kv_cache import PagedKVCache
from tiny_llm_solution.paged.pool import PagePool
from tiny_llm_solution.prefix.eviction import evict
from tiny_llm_solution.prefix.tree import RadixTree
from tiny_llm_solution.serving.request import Request

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.5.3")


def played(program, script, page=2, pages=20):
    """Run requests that are admitted with a prompt, "+", compute tokens and gain new ones, "r", or only reserve slots,
    "w", and finish, "-", or are preempted, "~"; with "=", one is admitted, computes all, gains 9 and finishes.
    """
    kv_cache, requests, found = program(SimpleNamespace(page_size=page, pages=pages)), {}, []
    for move in re.sub(r"=:(\w):(\d+)", r"+:\1:\2 r:\1:0:9 -:\1", script).split():
        what, name, *more = move.split(":")
        if what == "+":
            if more:
                requests[name] = Request([*map(int, more[0])], 50)
            request = requests[name]
            request.num_computed_tokens = 0
            let_in = kv_cache.admit(request)
            found += [-1, let_in]
            if not let_in:
                found.append(request.num_computed_tokens)
                request.num_computed_tokens = 0
        elif what == "r":
            count = int(more[0]) or requests[name].num_uncomputed_tokens
            came = kv_cache.reserve(requests[name], count)
            found += [-2, came]
            if came:
                requests[name].num_computed_tokens += count
                requests[name].output += map(int, "".join(more[1:]))
        elif what == "w":
            found += [-2, kv_cache.reserve(requests[name], int(more[0]))]
        else:
            requests[name].finish_reason = "length" if what == "-" else ""
            kv_cache.release(requests[name])
        found += [kv_cache.queried_tokens, kv_cache.hit_tokens, kv_cache.pool.num_free]
        for each in requests.values():
            found += [-3, each.num_computed_tokens, *sorted(kv_cache.block_tables.get(each, [-4]))]
    pool = kv_cache.pool
    rate = round(1000 * kv_cache.hit_rate)
    tree = [page for held, _ in edges_of(kv_cache.tree).values() for page in held]
    return mx.array([*found, -5, rate, *sorted(tree), -6, *(pool.ref_count(page) for page in range(pages))])


@known.probe()
def prefix_of_nothing(program):
    kv_cache = program(SimpleNamespace(page_size=2, pages=4))
    return mx.array(
        [kv_cache.hit_rate, kv_cache.queried_tokens, kv_cache.hit_tokens, *numbers(edges_of(kv_cache.tree))]
    )


@known.probe()
def prefix_with_a_pool(program):
    pool = PagePool(5)
    kv_cache = program(SimpleNamespace(page_size=2, pages=5), pool)
    return mx.array([kv_cache.admit(Request([1, 2, 3], 1)), pool.num_free, kv_cache.tree.pool is pool])


@known.probe()
def prefix_of_one_refused(program):
    request = Request([1, 2, 3, 4, 5], 1, num_computed_tokens=3)
    return mx.array([program(SimpleNamespace(page_size=2, pages=2)).admit(request), request.num_computed_tokens])


known.probe_table(
    evicts_for_writing=lambda program: played(
        program, "=:a:123456 +:b:654 r:b:0:1 r:b:0:2 r:b:0:3 r:b:0:4 r:b:0:5 r:b:0:6 r:b:0:7 -:b", pages=5
    ),
    refused=lambda program: played(program, "=:a:1234 +:b:1234567 r:b:0:8 +:c:1234567890 +:c -:b +:c r:c:0", pages=6),
    put_back=lambda program: played(
        program,
        "+:a:1234 +:b:567 r:a:0:5 r:b:0:8 r:b:0:9 r:b:0:1 r:b:0:2 r:a:0:6 r:a:0:7 ~:b r:a:0:7 +:b -:a +:b r:b:0:3",
        pages=6,
    ),
    found_to_its_end=lambda program: played(
        program, "=:a:1234 =:b:78 +:c:1234 ~:c +:d:33333333 ~:d +:e:12345", pages=6
    ),
    again=lambda program: played(program, "=:a:12345 =:b:12345"),
    of_whole_pages=lambda program: played(program, "=:a:123456 =:b:123456 =:c:1234"),
    alike=lambda program: played(program, "=:a:123456 =:b:123999 =:c:912345"),
    second_turn=lambda program: played(program, "+:a:123 r:a:0:4 r:a:0:5 r:a:0:6 -:a =:b:12345678"),
    of_one_that_runs=lambda program: played(program, "+:a:12345 r:a:3 +:b:12345 r:a:0:6 +:c:12345 -:b -:a"),
    unread=lambda program: played(program, "+:a:12345 +:b:12345 -:a +:c:12345 r:c:3 -:c +:d:12345"),
    two_at_once=lambda program: played(program, "+:a:12345 +:b:12345 r:a:0:6 r:b:0:7 +:c:9 r:a:0:8 -:a -:c -:b"),
    two_who_end=lambda program: played(program, "+:a:12345 +:b:12345 r:a:0:6 r:b:0:7 -:a -:b +:c:12345"),
    evicts_at_the_beginning=lambda program: played(program, "=:a:123456 =:b:654321 =:c:3333 =:d:123", pages=6),
    finds_what_is_old=lambda program: played(program, "=:a:123456 =:b:654321 =:c:123456789", pages=6),
    needs_less_room=lambda program: played(program, "+:a:1234567890 r:a:0:1 +:b:12345678901 r:b:0:3", pages=7),
    room_for_who_is_here=lambda program: played(program, "+:a:123 r:a:0:4 +:b:567 +:c:56", pages=4),
    room_for_a_draft=lambda program: played(program, "=:a:123456 +:b:654 r:b:0:7 w:b:3 w:b:1", pages=5),
    of_single_tokens=lambda program: played(program, "=:a:123 =:b:1239", page=1),
)


@known.sized("64 requests of 500 tokens with a common prefix")
def sized(program):
    storage = SimpleNamespace(page_size=16, pages=600)

    def run():
        kv_cache = program(storage)
        for number in range(64):
            request = Request([*range(400), *range(1000 * number, 1000 * number + 100)], 1)
            kv_cache.admit(request)
            kv_cache.reserve(request, request.num_uncomputed_tokens)
            request.num_computed_tokens = request.num_tokens
            kv_cache.release(request)
        return mx.array(kv_cache.hit_rate)

    return run


known.change(
    "all-tokens-looked-for",
    ("request.tokens(0, request.num_tokens - 1)", "request.tokens(0, request.num_tokens)"),
    fact="all tokens of a request may match, leaving none to compute",
    question="The whole prompt is cached. Which token's logits give the first new token?",
)
known.change(
    "last-page-given-up",
    (
        "found = self.tree.match(request.tokens(0, request.num_tokens - 1))",
        """
        found = self.tree.match(request.tokens(0, request.num_tokens))
        if len(found) * self.storage.page_size == request.num_tokens:
            found.pop()
        """,
    ),
    fact="all tokens are matched, and the last page is then dropped if all were found",
    question="The last page matched, but is not used. What is the last access of its node?",
)
known.change(
    "prompt-looked-for-alone",
    ("request.tokens(0, request.num_tokens - 1)", "request.prompt[:-1]"),
    fact="only the prompt without its last token is matched, even if a preempted request has output",
    question="A request is preempted after 500 tokens of output. Where are their keys and values, and what finds them?",
)
known.change(
    "found-pages-not-held",
    ("self.pool.retain(found)  # before any page is evicted", "pass"),
    ("self.pool.release(found)", "pass"),
    fact="a request uses matched pages without retaining them",
    question="Two requests use a page. How many may release it before it is reallocated?",
)
known.change(
    "held-too-late",
    ("self.pool.retain(found)  # before any page is evicted", "pass"),
    ("self.pool.release(found)", "pass"),
    ("self.block_tables[request] = found", "self.pool.retain(found)\nself.block_tables[request] = found"),
    fact="matched pages are retained only after the eviction",
    question="The pool is full, and the matched pages are the least recently used. What is evicted first?",
)
known.change(
    "held-for-ever-if-refused",
    ("self.pool.release(found)", "pass"),
    fact="a request that is not admitted keeps its references to the matched pages",
    question="A waiting request is tried again at every step. What is the reference count of its prompt's first page?",
)
known.change(
    "unread-pages-kept",
    ("request.num_computed_tokens // self.storage.page_size", "request.num_tokens // self.storage.page_size"),
    fact="pages of uncomputed tokens are inserted into the tree",
    question="Two requests are admitted in one step. What do the first one's pages contain?",
)
known.change(
    "whole-table-kept",
    (
        "request.num_computed_tokens // self",
        "min(request.num_tokens, request.num_computed_tokens + self.storage.page_size - 1) // self",
    ),
    fact="a partly filled page is inserted into the tree",
    question="Three tokens are computed, and a page has two. What is in the second page's second slot?",
)
known.change(
    "prompts-alone",
    (
        "request.num_computed_tokens // self.storage.page_size",
        "min(request.num_computed_tokens, len(request.prompt)) // self.storage.page_size",
    ),
    fact="only pages of the prompt are inserted into the tree",
    question="A chat's second turn starts with the first turn's answer. Which request computed the answer's keys?",
)
known.change(
    "nothing-kept-at-the-end",
    ("self._share(request)\nsuper().release(request)", "super().release(request)"),
    fact="a finished request's pages are freed instead of inserted into the tree",
    question="One request finishes, and the next asks the same. What held the pages in between?",
)
known.change(
    "nothing-kept-of-who-is-put-back",
    (
        "self._share(request)\nsuper().release(request)",
        "if request.finish_reason:\n    self._share(request)\nsuper().release(request)",
    ),
    fact="a preempted request's pages are freed instead of inserted into the tree",
    question="A request is preempted after 2,000 tokens and admitted again. How many of them must it recompute?",
)
known.change(
    "found-only-at-the-end",
    ("self._share(other)", "pass"),
    fact="a request's pages are inserted into the tree only after it has finished",
    question="A hundred chats with one system prompt arrive within a second. How many of them compute it?",
)
known.change(
    "no-eviction-for-who-comes",
    ("if not self._free(needed + len(self.block_tables)):", "if self.pool.num_free < needed + len(self.block_tables):"),
    fact="admission never evicts, so no request is admitted while the tree holds all pages",
    question="The tree holds all pages. How long must the next request wait for a free one?",
)
known.change(
    "own-slots-forgotten",
    ("self.pages_for(request.num_computed_tokens + count) - len(self.block_tables[request])", "self.pages_for(count)"),
    fact="reserve evicts for all new tokens, ignoring the free slots of the request's last page",
    question="A request decodes one token, and its last page is half empty. How many pages must be evicted?",
)
known.change(
    "no-eviction-for-who-writes",
    ("self._free(self.pages_for(request.num_computed_tokens + count) - len(self.block_tables[request]))", "pass"),
    fact="reserve never evicts, so it fails while the tree holds all pages",
    question="A request needs a page, and the tree has ten unused ones. Should a younger request be preempted?",
)
known.change(
    "everything-evicted",
    (
        "evict(self.tree, count - self.pool.num_free)",
        "evict(self.tree, self.pool.pages if count > self.pool.num_free else 0)",
    ),
    fact="the whole tree is evicted as soon as one page is missing",
    question="How many pages are missing, and how many does your call of evict request?",
)
known.change(
    "all-that-are-needed",
    ("evict(self.tree, count - self.pool.num_free)", "evict(self.tree, count if count > self.pool.num_free else 0)"),
    fact="as many pages are evicted as are needed in all, ignoring the free ones",
    question="Three pages are needed, and two are free. How many are missing?",
)
known.change(
    "free-pages-not-counted",
    ("evict(self.tree, count - self.pool.num_free)", "evict(self.tree, count)"),
    fact="as many pages are evicted as are needed, although some are free",
    question="Three pages are needed, and two are free. How many must be evicted?",
)
known.change(
    "room-for-what-is-found",
    ("needed = self.pages_for(request.num_tokens) - len(found)", "needed = self.pages_for(request.num_tokens)"),
    fact="a request gets new pages for all its tokens, besides the matched ones",
    question="Nine of a prompt's ten pages match. How many new ones does it need?",
)
known.change(
    "no-page-for-who-is-here",
    ("self._free(needed + len(self.block_tables))", "self._free(needed)"),
    fact="admission leaves no page free for the running requests",
    question="Prompts fill the pool to the last page. Where do their next tokens go?",
)
known.change(
    "everything-read-anew",
    ("request.num_computed_tokens = len(found) * self.storage.page_size", "request.num_computed_tokens = 0"),
    fact="a request gets the matched pages and recomputes its tokens into them",
    question="num_computed_tokens is 0. Where does the model start, and whose pages does it overwrite?",
)
known.change(
    "pages-for-tokens",
    ("request.num_computed_tokens = len(found) * self.storage.page_size", "request.num_computed_tokens = len(found)"),
    fact="num_computed_tokens is the number of matched pages",
    question="What is the unit of num_computed_tokens?",
)
known.change(
    "read-of-who-is-refused",
    (
        "needed = self.pages_for",
        "request.num_computed_tokens = len(found) * self.storage.page_size\nneeded = self.pages_for",
    ),
    (
        "request.num_computed_tokens = len(found) * self.storage.page_size\nself.queried_tokens += request.num_tokens",
        "self.queried_tokens += request.num_tokens",
    ),
    fact="num_computed_tokens changes for a request that is not admitted",
    question="A waiting request has no pages. How many of its tokens are cached?",
)
known.change(
    "a-pool-of-its-own",
    ("super().__init__(storage, pool)", "super().__init__(storage)"),
    fact="the pool that is passed in is ignored",
    question="What is the constructor's second argument for?",
)
known.change(
    "refused-and-unread",
    ("found = self.tree.match", "request.num_computed_tokens = 0\nfound = self.tree.match"),
    fact="num_computed_tokens becomes 0 even if admit returns False",
    question="admit has returned False. What may have changed?",
)
known.change(
    "prompt-tokens-asked",
    ("self.queried_tokens += request.num_tokens", "self.queried_tokens += len(request.prompt)"),
    fact="queried_tokens counts only the prompt of a request that is admitted again",
    question="A request of 5 tokens is preempted with 4 output tokens. How many tokens must it look up on its return?",
)
known.change(
    "refused-are-asked",
    ("needed = self.pages_for", "self.queried_tokens += request.num_tokens\nneeded = self.pages_for"),
    (
        "self.queried_tokens += request.num_tokens\nself.hit_tokens += request.num_computed_tokens",
        "self.hit_tokens += request.num_computed_tokens",
    ),
    fact="queried_tokens, unlike hit_tokens, also counts requests that are not admitted",
    question="A request waits for ten steps and is then admitted. How often do its tokens count?",
)
known.change(
    "hits-in-pages",
    ("self.hit_tokens += request.num_computed_tokens", "self.hit_tokens += len(found)"),
    fact="hit_tokens counts matched pages instead of tokens",
    question="queried_tokens counts tokens. What does the ratio of the two mean if hit_tokens counts pages?",
)
known.change(
    "rate-of-the-others",
    (
        "return self.hit_tokens / self.queried_tokens if self.queried_tokens else 0.0",
        "return 1 - self.hit_tokens / self.queried_tokens if self.queried_tokens else 0.0",
    ),
    fact="hit_rate is the share that was not found",
    question="If nothing was ever found, what should the rate be?",
)
known.change(
    "two-lots-of-pages",
    ("self.pool.retain(known)\nself.pool.release(block_table[:whole])\nblock_table[:whole] = known", ""),
    ("known = self.tree.insert", "self.tree.insert"),
    fact="a request keeps its own pages although the tree has the same tokens",
    question="Two requests computed the same prompt, each in its own pages. How many of these pages are needed?",
)
known.change(
    "own-pages-not-dropped",
    ("self.pool.release(block_table[:whole])", "pass"),
    fact="a request that switches to the tree's pages does not release its own",
    question="A block table has new pages in it. What releases the old ones?",
)
known.change(
    "tree-s-pages-not-held",
    ("self.pool.retain(known)", "pass"),
    fact="a request switches to the tree's pages without retaining them",
    question="A page is in the tree and in two block tables. Which references should it have?",
)


@known.accepted("one-function")
class OneFunction(PagedKVCache):
    def __init__(self, storage, pool=None):
        super().__init__(storage, pool)
        self.tree, self.queried_tokens, self.hit_tokens = RadixTree(self.pool, storage.page_size), 0, 0

    @property
    def hit_rate(self):
        return self.hit_tokens / max(self.queried_tokens, 1)

    def admit(self, request):
        size = self.storage.page_size
        for other, block_table in self.block_tables.items():
            self.give(other, block_table)
        found = self.tree.match(request.tokens(0, request.num_tokens)[:-1])
        self.pool.retain(found)
        new = -(-request.num_tokens // size) - len(found)
        evict(self.tree, new + len(self.block_tables) - self.pool.num_free)
        if new + len(self.block_tables) <= self.pool.num_free:
            self.block_tables[request] = [*found, *self.pool.allocate(new)]
            request.num_computed_tokens = size * len(found)
            self.queried_tokens, self.hit_tokens = (
                self.queried_tokens + request.num_tokens,
                self.hit_tokens + request.num_computed_tokens,
            )
            return True
        self.pool.release(found)
        return False

    def reserve(self, request, count):
        if super().reserve(request, count):
            return True
        evict(
            self.tree,
            self.pages_for(request.num_computed_tokens + count) - len(self.block_tables[request]) - self.pool.num_free,
        )
        return super().reserve(request, count)

    def release(self, request):
        block_table = self.block_tables[request]
        whole = request.num_computed_tokens // self.storage.page_size
        self.tree.insert(request.tokens(0, whole * self.storage.page_size), block_table[:whole])
        super().release(request)

    def give(self, request, block_table):
        whole = request.num_computed_tokens // self.storage.page_size
        for at, page in enumerate(
            self.tree.insert(request.tokens(0, whole * self.storage.page_size), block_table[:whole])
        ):
            if page != block_table[at]:
                self.pool.retain([page])
                self.pool.release([block_table[at]])
                block_table[at] = page
