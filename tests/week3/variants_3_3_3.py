"""Known programs of task 3.3.3, block tables."""

import mlx.core as mx
from tests.week3.played import Shelves, numbers, play_memory, request_of
from tiny_llm_solution.paged.pool import PagePool
from tiny_llm_solution.serving.request import Chunk

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.3.3")


def played(program, page, pages, *script):
    return numbers(play_memory(program, page, pages, script))


def begun(who, prompt, *written):
    return ("request", who, prompt, *written), ("admit", who)


@known.probe()
def memory_one_request(program):
    """A request that decodes past the end of a page."""
    grown = [call for _ in range(4) for call in (("write", "a", 1), ("reserve", "a", 1), ("read", "a", 1))]
    return played(program, 4, 6, *begun("a", 5), ("reserve", "a", 5), ("read", "a", 5), *grown, ("release", "a"))


READ = (*begun("a", 3), ("read", "a", 3), *begun("b", 3), ("read", "b", 3))
CHECKED = (5, 7), (5, 8), (5, 9), (12, 1), (1, 12), (13, 2)
known.probe_table(
    checks=lambda program: played(program, 4, 3, *[("validate", prompt, new) for prompt, new in CHECKED]),
    all_or_nothing=lambda program: played(
        program, 2, 5, *READ, *(("reserve", *each) for each in (("a", 4), ("b", 1), ("b", 2)))
    ),
    full_page=lambda program: played(
        program, 4, 3, *begun("a", 4), ("reserve", "a", 4), ("read", "a", 4), ("reserve", "a", 1)
    ),
    lets_in=lambda program: played(program, 4, 7, *begun("a", 5), *begun("b", 7), *begun("c", 5), *begun("d", 1)),
    alone=lambda program: played(program, 3, 3, *begun("a", 8), ("reserve", "a", 8)),
    begins_anew=lambda program: played(program, 4, 5, *begun("a", 3, 6), ("reserve", "a", 9)),
    # A preempted request whose num_computed_tokens was not reset.
    begins_unread=lambda program: played(
        program, 4, 5, *begun("a", 3), ("read", "a", 3), ("release", "a"), ("admit", "a")
    ),
    refuses_and_changes_nothing=lambda program: played(
        program, 4, 2, *begun("a", 5), ("request", "b", 3), ("read", "b", 2), ("admit", "b")
    ),
    reserves=lambda program: played(
        program, 3, 9, *begun("a", 3), ("read", "a", 3), ("reserve", "a", 2), ("read", "a", 2), ("reserve", "a", 5)
    ),
    reserves_twice=lambda program: played(program, 2, 6, *begun("a", 3), ("reserve", "a", 5), ("reserve", "a", 5)),
    shortens_within_a_page=lambda program: played(
        program, 4, 6, *begun("a", 11), ("truncate", "a", 6), ("reserve", "a", 3)
    ),
    shortens_to_a_page=lambda program: played(program, 4, 6, *begun("a", 11), ("truncate", "a", 4)),
    shortens_to_all=lambda program: played(program, 4, 6, *begun("a", 9), ("truncate", "a", 9), ("reserve", "a", 2)),
    shortens_and_grows=lambda program: played(
        program, 4, 6, *begun("a", 9), ("truncate", "a", 2), *begun("b", 3), ("reserve", "a", 9)
    ),
    releases=lambda program: played(program, 4, 4, *begun("a", 5), ("release", "a"), *begun("b", 13)),
    that_is_shared=lambda program: played(
        program, 4, 4, *begun("a", 5), ("others_hold", "a"), ("release", "a"), ("others_take", 1)
    ),
    checks_while_others_are_here=lambda program: played(
        program, 4, 3, *begun("a", 9), ("validate", 5, 7), ("validate", 5, 8)
    ),
)


@known.probe()
def memory_hands_on(program):
    shelves = Shelves(2, 9)
    kv_cache, a, b, c = program(shelves), request_of(3), request_of(2), request_of(1)
    for each in (a, b, c):
        kv_cache.admit(each)
    answer = kv_cache.attend(3, None, None, None, [Chunk(each, 0, [1], 0) for each in (b, a)])
    layer, *_, block_tables = shelves.asked[0]
    return mx.array([layer, answer == "attended", *(page for block_table in block_tables for page in block_table)])


@known.probe()
def memory_with_a_pool(program):
    pool = PagePool(5)
    pool.allocate(2)
    kv_cache, a = program(Shelves(2, 5), pool), request_of(3)
    return mx.array([kv_cache.admit(a), pool.num_free, kv_cache.pool.num_free, *kv_cache.block_tables.get(a, [])])


known.not_timed("lists of page numbers, a handful per step")

known.change(
    "room-for-the-prompt",
    ("self.pages_for(request.num_tokens)", "self.pages_for(len(request.prompt))"),
    fact="pages are allocated for the prompt only, even if the request already has output",
    question="A request was preempted after 6 output tokens. How many tokens must it recompute?",
)
known.change(
    "no-page-for-the-others",
    ("if needed + len(self.block_tables) > self.pool.num_free:", "if needed > self.pool.num_free:"),
    fact="admission leaves no page free for the running requests",
    question="It takes the last page, and in the next step an older request needs one. Which one is preempted?",
)
known.change(
    "one-page-for-all-others",
    ("needed + len(self.block_tables)", "needed + bool(self.block_tables)"),
    fact="admission leaves one free page for all running requests together",
    question="Three requests run. How many pages may they need in the next steps?",
)
known.change(
    "a-page-too-many-is-asked-for",
    ("needed + len(self.block_tables)", "needed + len(self.block_tables) + 1"),
    fact="admission also needs one free page for the new request itself",
    question="A request that needs all pages comes alone. When is it admitted?",
)
known.change(
    "slot-of-the-next-token",
    ("needed = self.pages_for(request.num_tokens)", "needed = self.pages_for(request.num_tokens + 1)"),
    fact="admit also allocates a slot for the next token, which fills a page of its own after a full one",
    question="A request has four tokens, and a page four slots. How many pages do its present tokens need?",
)
known.change(
    "counted-and-not-taken",
    ("self.block_tables[request] = self.pool.allocate(needed)", "self.block_tables[request] = []"),
    fact="admit checks that pages are free without allocating them, so the next request counts them again",
    question="Two requests are admitted before the first one reserves. How many free pages does the second one see?",
)
known.change(
    "read-stays",
    ("request.num_computed_tokens = 0", "pass"),
    fact="admit leaves num_computed_tokens as it was",
    question="How many of a request's tokens are in pages that were just allocated?",
)
known.change(
    "refused-and-unread",
    (
        "needed = self.pages_for(request.num_tokens)",
        "request.num_computed_tokens = 0\nneeded = self.pages_for(request.num_tokens)",
    ),
    fact="num_computed_tokens becomes 0 even if admit returns False",
    question="admit has returned False. What may have changed?",
)
known.change(
    "all-pages-anew",
    (
        "max(0, self.pages_for(request.num_computed_tokens + count) - len(block_table))",
        "self.pages_for(request.num_computed_tokens + count)",
    ),
    fact="reserve allocates pages for all of the request's tokens again",
    question="A request has two pages and one new token. How many more pages can it need?",
)
known.change(
    "pages-for-each-chunk",
    ("max(0, self.pages_for(request.num_computed_tokens + count) - len(block_table))", "self.pages_for(count)"),
    fact="each chunk gets new pages, although the last page has free slots",
    question="A request's last page has three free slots, and one token comes. Where should it go?",
)
known.change(
    "without-what-was-read",
    ("self.pages_for(request.num_computed_tokens + count)", "self.pages_for(count)"),
    fact="reserve counts only the new tokens, as if none were cached",
    question="Four tokens fill a page, and one more comes. What is its position?",
)
known.change(
    "counted-from-all-present-tokens",
    ("request.num_computed_tokens + count", "request.num_tokens + count"),
    fact="reserve counts from the request's last token, not from its last computed one",
    question="A request has 100 tokens, none of them computed, and a chunk of 100. How many slots does it need?",
)
known.change(
    "present-tokens-reserved",
    ("request.num_computed_tokens + count)", "max(request.num_tokens, request.num_computed_tokens + count))"),
    fact="reserve allocates the pages of all present tokens, however few are requested",
    question="A request of 40 tokens was truncated to none, and a chunk of 8 is next. How many slots does it need?",
)
known.change(
    "what-there-is",
    (
        "if missing > self.pool.num_free:",
        "if missing > self.pool.num_free:\n    block_table += self.pool.allocate(self.pool.num_free)",
    ),
    fact="reserve allocates the free pages even if there are too few, and returns False",
    question="After a reserve that returned False, what should the pool look like?",
)
known.change(
    "error-let-through",
    ("if missing > self.pool.num_free:", "if False:"),
    fact="reserve raises OutOfPages instead of returning False",
    question="What does KVCacheManager.reserve return when there is no capacity?",
)
known.change(
    "reserve-leaves-a-page-for-each",
    ("if missing > self.pool.num_free:", "if missing and missing + len(self.block_tables) - 1 > self.pool.num_free:"),
    fact="reserve, like admit, leaves one page free for each other request",
    question="One page is free, and a running request needs it. What is it kept for?",
)
known.change(
    "reserve-always-true",
    ("if missing > self.pool.num_free:\n    return False", "if missing > self.pool.num_free:\n    return True"),
    fact="reserve returns True even if it allocated nothing",
    question="What does your reserve return when there are too few pages?",
)
known.change(
    "reserved-is-read",
    (
        "block_table += self.pool.allocate(missing)",
        "block_table += self.pool.allocate(missing)\nrequest.num_computed_tokens += count",
    ),
    fact="reserve adds the reserved tokens to num_computed_tokens",
    question="Slots are reserved for a chunk, and then the model fails. How many tokens are computed?",
)
known.change(
    "shorten-sets-read",
    ("del block_table[kept:]", "del block_table[kept:]\nrequest.num_computed_tokens = length"),
    fact="truncate also sets num_computed_tokens",
    question="What does truncate free, and who counts the computed tokens?",
)
known.change(
    "none-too-many-is-all",
    ("release(block_table[kept:])", "release(block_table[kept - len(block_table) :])"),
    ("del block_table[kept:]", "del block_table[kept - len(block_table) :]"),
    fact="truncate frees all pages when none is surplus",
    question="Nine tokens are in three pages, and nine are kept. How many pages are freed?",
)
known.change(
    "shortened-and-not-given-back",
    ("self.pool.release(block_table[kept:])", "pass"),
    fact="truncate shortens the block table and leaks its pages",
    question="What frees the pages that no block table lists any more?",
)
known.change(
    "given-back-and-kept",
    ("del block_table[kept:]", "pass"),
    fact="truncate frees pages and leaves them in the block table",
    question="Whose tokens are in a page after it was freed, and which table still lists it?",
)
known.change(
    "half-a-page-lost",
    (
        "kept = self.block_tables[request], self.pages_for(length)",
        "kept = self.block_tables[request], length // self.storage.page_size",
    ),
    fact="truncate also frees a last page that still holds kept tokens",
    question="Six tokens are kept, in pages of four. Where are the fifth and the sixth?",
)
known.change(
    "a-page-too-many-kept",
    ("self.pages_for(length)", "length // self.storage.page_size + 1"),
    fact="truncate to a page boundary keeps one page too many",
    question="Four tokens are kept, in pages of four. What is in the second page?",
)
known.change(
    "nothing-is-shortened",
    (
        "kept = self.block_tables[request], self.pages_for(length)",
        "kept = self.block_tables[request], len(self.block_tables[request])",
    ),
    fact="truncate frees nothing",
    question="A step failed. What had it reserved?",
)
known.change(
    "forgotten-and-not-given-back",
    ("self.pool.release(self.block_tables.pop(request))", "self.block_tables.pop(request)"),
    fact="release drops the block table and leaks its pages",
    question="After all requests have gone, how many pages are free?",
)
known.change(
    "given-back-and-not-forgotten",
    ("self.pool.release(self.block_tables.pop(request))", "self.pool.release(self.block_tables[request])"),
    fact="release frees the pages and keeps the block table",
    question="What should the KV cache store about a released request?",
)
known.change(
    "prompt-alone-is-checked",
    ("if prompt + new > room:", "if prompt > room:"),
    fact="only the prompt's length is validated, without max_tokens",
    question="The prompt fits exactly, and the request may generate eight tokens more. Where should they go?",
)
known.change(
    "one-place-too-few",
    ("if prompt + new > room:", "if prompt + new - 1 > room:"),
    fact="a request that needs one slot more than the pool has passes, as if its last token needed none",
    question="There are 12 slots. What does the docstring say about a prompt of 5 tokens and 8 new ones?",
)
known.change(
    "exactly-full-is-refused",
    ("if prompt + new > room:", "if prompt + new >= room:"),
    fact="a request that would fill all slots exactly raises",
    question="There are 12 slots. Do 12 tokens fit?",
)
known.change(
    "checked-by-what-is-free",
    ("self.pool.pages * self.storage.page_size", "self.pool.num_free * self.storage.page_size"),
    fact="validate compares with the free pages instead of all pages",
    question="All pages are in use just now. Could the request be served later?",
)
known.change(
    "everything-is-let-through",
    ("if prompt + new > room:", "if False:"),
    fact="validate never raises",
    question="What happens to a request that is longer than all pages together?",
)
known.change(
    "tables-in-another-order",
    ("[self.block_tables[chunk.request] for chunk in chunks]", "[*self.block_tables.values()]"),
    fact="attend passes all block tables in order of admission, not those of the chunks",
    question="A step has a chunk of the second request and one of the first. Whose block table comes first?",
)
known.change(
    "tables-as-they-were-let-in",
    (
        "[self.block_tables[chunk.request] for chunk in chunks]",
        "[block_table for one, block_table in self.block_tables.items() if one in [chunk.request for chunk in chunks]]",
    ),
    fact="attend passes the chunks' block tables in the order in which their requests were admitted",
    question="A step has a chunk of the second request, then one of the first. Whose rows come first in query?",
)
known.change(
    "a-page-more-than-full",
    ("return -(-tokens // self.storage.page_size)", "return tokens // self.storage.page_size + 1"),
    fact="tokens that exactly fill their pages get one more page",
    question="How many pages of four do four tokens need?",
)
known.change(
    "rounded-down",
    ("return -(-tokens // self.storage.page_size)", "return tokens // self.storage.page_size"),
    fact="a partly filled page is not counted",
    question="How many pages of four do five tokens need?",
)
known.change(
    "a-pool-of-its-own",
    ("PagePool(storage.pages) if pool is None else pool", "PagePool(storage.pages)"),
    fact="the pool that is passed in is ignored",
    question="What is the constructor's second argument for?",
)


@known.accepted("page-by-page")
class PageByPage:
    def __init__(self, storage, pool=None):
        self.storage, self.block_tables = storage, {}
        self.pool = pool if pool is not None else PagePool(storage.pages)

    def validate(self, request):
        tokens, places = request.max_tokens + len(request.prompt), self.storage.page_size * self.storage.pages
        if places < tokens:
            raise ValueError(f"{tokens} tokens, {places} slots")

    def admit(self, request):
        others = len(self.block_tables)
        self.block_tables[request] = []
        if self.grown(request, request.num_tokens) and self.pool.num_free >= others:
            request.num_computed_tokens = 0
            return True
        self.release(request)
        return False

    def pages_for(self, tokens):
        return len(range(0, tokens, self.storage.page_size))

    def grown(self, request, tokens):
        block_table, before = self.block_tables[request], len(self.block_tables[request])
        while len(block_table) * self.storage.page_size < tokens:
            if not self.pool.num_free:
                self.pool.release(block_table[before:])
                del block_table[before:]
                return False
            block_table.extend(self.pool.allocate(1))
        return True

    def reserve(self, request, count):
        return self.grown(request, request.num_computed_tokens + count)

    def truncate(self, request, length):
        block_table = self.block_tables[request]
        while (len(block_table) - 1) * self.storage.page_size >= length and block_table:
            self.pool.release([block_table.pop()])

    def release(self, request):
        for page in self.block_tables.pop(request):
            self.pool.release([page])

    def attend(self, layer, query, key, value, chunks):
        block_tables = [self.block_tables[chunk.request] for chunk in chunks]
        return self.storage.attend(layer, query, key, value, chunks, block_tables)
