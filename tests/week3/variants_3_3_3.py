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
    return ("request", who, prompt, *written), ("begin", who)


@known.probe()
def memory_one_request(program):
    """A text that grows by the token, past the end of a page."""
    grown = [call for _ in range(4) for call in (("write", "a", 1), ("reserve", "a", 1), ("read", "a", 1))]
    return played(program, 4, 6, *begun("a", 5), ("reserve", "a", 5), ("read", "a", 5), *grown, ("release", "a"))


@known.probe()
def memory_reserves_all_or_nothing(program):
    script = (*begun("a", 3), ("read", "a", 3), *begun("b", 3), ("read", "b", 3))
    return played(program, 2, 5, *script, ("reserve", "a", 4), ("reserve", "b", 1), ("reserve", "b", 2))


@known.probe()
def memory_checks(program):
    checks = [("check", prompt, new) for prompt, new in ((5, 7), (5, 8), (5, 9), (12, 1), (1, 12), (13, 2))]
    return played(program, 4, 3, *checks)


known.probe_table(
    full_page=lambda program: played(
        program, 4, 3, *begun("a", 4), ("reserve", "a", 4), ("read", "a", 4), ("reserve", "a", 1)
    ),
    lets_in=lambda program: played(program, 4, 7, *begun("a", 5), *begun("b", 7), *begun("c", 5), *begun("d", 1)),
    alone=lambda program: played(program, 3, 3, *begun("a", 8), ("reserve", "a", 8)),
    begins_anew=lambda program: played(program, 4, 5, *begun("a", 3, 6), ("reserve", "a", 9)),
    # One that has read, and was put back by somebody who has forgotten to say so.
    begins_unread=lambda program: played(
        program, 4, 5, *begun("a", 3), ("read", "a", 3), ("release", "a"), ("begin", "a")
    ),
    refuses_and_changes_nothing=lambda program: played(
        program, 4, 2, *begun("a", 5), ("request", "b", 3), ("read", "b", 2), ("begin", "b")
    ),
    reserves=lambda program: played(
        program, 3, 9, *begun("a", 3), ("read", "a", 3), ("reserve", "a", 2), ("read", "a", 2), ("reserve", "a", 5)
    ),
    reserves_twice=lambda program: played(program, 2, 6, *begun("a", 3), ("reserve", "a", 5), ("reserve", "a", 5)),
    shortens_within_a_page=lambda program: played(
        program, 4, 6, *begun("a", 11), ("shorten", "a", 6), ("reserve", "a", 3)
    ),
    shortens_to_a_page=lambda program: played(program, 4, 6, *begun("a", 11), ("shorten", "a", 4)),
    shortens_to_all=lambda program: played(program, 4, 6, *begun("a", 9), ("shorten", "a", 9), ("reserve", "a", 2)),
    shortens_and_grows=lambda program: played(
        program, 4, 6, *begun("a", 9), ("shorten", "a", 2), *begun("b", 3), ("reserve", "a", 9)
    ),
    releases=lambda program: played(program, 4, 4, *begun("a", 5), ("release", "a"), *begun("b", 13)),
    that_is_shared=lambda program: played(
        program, 4, 4, *begun("a", 5), ("others_hold", "a"), ("release", "a"), ("others_take", 1)
    ),
    checks_while_others_are_here=lambda program: played(
        program, 4, 3, *begun("a", 9), ("check", 5, 7), ("check", 5, 8)
    ),
)


@known.probe()
def memory_hands_on(program):
    shelves = Shelves(2, 9)
    memory, a, b, c = program(shelves), request_of(3), request_of(2), request_of(1)
    for each in (a, b, c):
        memory.begin(each)
    answer = memory.attend(3, None, None, None, [Chunk(each, 0, [1], 0) for each in (b, a)])
    layer, *_, tables = shelves.asked[0]
    return mx.array([layer, answer == "attended", *(page for table in tables for page in table)])


@known.probe()
def memory_with_a_pool(program):
    pool = PagePool(5)
    pool.take(2)
    memory, a = program(Shelves(2, 5), pool), request_of(3)
    return mx.array([memory.begin(a), pool.free, memory.pool.free, *memory.tables.get(a, [])])


known.not_timed("lists of page numbers, of which a step looks at a handful")

known.change(
    "room-for-the-prompt",
    ("self.pages_for(request.length)", "self.pages_for(len(request.prompt))"),
    fact="a request is let in with pages for its prompt, also if it has written already",
    question="A request was put back after 6 tokens of output. How many tokens has it to read?",
)
known.change(
    "no-page-for-the-others",
    ("if needed + len(self.tables) > self.pool.free:", "if needed > self.pool.free:"),
    fact="a request is let in also if it takes the last pages that the others need to grow",
    question="It takes the last page, and in the next step an older request needs one. Who goes?",
)
known.change(
    "one-page-for-all-others",
    ("needed + len(self.tables)", "needed + bool(self.tables)"),
    fact="one page is left for all others together",
    question="Three requests are here. How many pages may they need in the next steps?",
)
known.change(
    "a-page-too-many-is-asked-for",
    ("needed + len(self.tables)", "needed + len(self.tables) + 1"),
    fact="a page for the request itself must stay free, too",
    question="A request that needs all pages comes alone. When is it let in?",
)
known.change(
    "counted-and-not-taken",
    ("self.tables[request] = self.pool.take(needed)", "self.tables[request] = []"),
    fact="a request is let in without pages, so that the next one is promised the same ones",
    question="Two requests are let in before the first one reserves. How many pages does the second one see?",
)
known.change(
    "read-stays",
    ("request.read = 0", "pass"),
    fact="`read` stays what it was when a request is let in",
    question="How many of its tokens are in pages that were just taken?",
)
known.change(
    "refused-and-unread",
    ("needed = self.pages_for(request.length)", "request.read = 0\nneeded = self.pages_for(request.length)"),
    fact="`read` becomes 0 also of a request that is not let in",
    question="begin has said False. What may have changed?",
)
known.change(
    "all-pages-anew",
    ("max(0, self.pages_for(request.read + count) - len(table))", "self.pages_for(request.read + count)"),
    fact="reserve takes pages for the whole text, also for the tokens that have some",
    question="A request has two pages and reads one token more. How many pages can it need?",
)
known.change(
    "pages-for-each-chunk",
    ("max(0, self.pages_for(request.read + count) - len(table))", "self.pages_for(count)"),
    fact="each chunk gets pages of its own, although the last page has places left",
    question="The last page of a request has three empty places, and one token comes. Where should it go?",
)
known.change(
    "without-what-was-read",
    ("self.pages_for(request.read + count)", "self.pages_for(count)"),
    fact="reserve counts the new tokens alone, as if nothing had been read",
    question="Four tokens fill a page, and one more comes. At which position does it stand?",
)
known.change(
    "what-there-is",
    ("if missing > self.pool.free:", "if missing > self.pool.free:\n    table += self.pool.take(self.pool.free)"),
    fact="reserve takes what there is where there is not enough, and says that there is no room",
    question="After a reserve that gave False, what should the pool look like?",
)
known.change(
    "error-let-through",
    ("if missing > self.pool.free:", "if False:"),
    fact="reserve raises where there are too few pages, and does not say False",
    question="What does Memory.reserve give when there is no room?",
)
known.change(
    "reserve-leaves-a-page-for-each",
    ("if missing > self.pool.free:", "if missing and missing + len(self.tables) - 1 > self.pool.free:"),
    fact="reserve leaves a page free for each other request that is here, as begin does",
    question="One page is free, and a request that runs needs it. For what is it kept?",
)
known.change(
    "no-room-without-a-word",
    ("if missing > self.pool.free:\n    return False", "if missing > self.pool.free:\n    return True"),
    fact="reserve says that there is room also where it found none",
    question="What does your reserve return when there are too few pages?",
)
known.change(
    "reserved-is-read",
    ("table += self.pool.take(missing)", "table += self.pool.take(missing)\nrequest.read += count"),
    fact="reserve counts the tokens as read, before anybody has read them",
    question="There is room for a chunk, and then the model fails. How many tokens has the request read?",
)
known.change(
    "shorten-sets-read",
    ("del table[kept:]", "del table[kept:]\nrequest.read = length"),
    fact="shorten sets `read`, too",
    question="What does shorten give back, and who counts what was read?",
)
known.change(
    "none-too-many-is-all",
    ("drop(table[kept:])", "drop(table[kept - len(table) :])"),
    ("del table[kept:]", "del table[kept - len(table) :]"),
    fact="shorten gives back all pages where there is none too many",
    question="Nine tokens are in three pages, and nine are kept. How many pages go back?",
)
known.change(
    "shortened-and-not-given-back",
    ("self.pool.drop(table[kept:])", "pass"),
    fact="shorten cuts the table, and the pages stay taken for good",
    question="Who gives back the pages that no table names any more?",
)
known.change(
    "given-back-and-kept",
    ("del table[kept:]", "pass"),
    fact="shorten gives pages back, and leaves them in the table",
    question="Whose tokens are in a page that was given back, and who still looks there?",
)
known.change(
    "half-a-page-lost",
    ("kept = self.tables[request], self.pages_for(length)", "kept = self.tables[request], length // self.storage.page"),
    fact="shorten gives back the last page also if tokens in it are kept",
    question="Six tokens are kept, in pages of four. Where are the fifth and the sixth?",
)
known.change(
    "a-page-too-many-kept",
    ("self.pages_for(length)", "length // self.storage.page + 1"),
    fact="shorten to the end of a page keeps one page more",
    question="Four tokens are kept, in pages of four. What is in the second page?",
)
known.change(
    "nothing-is-shortened",
    ("kept = self.tables[request], self.pages_for(length)", "kept = self.tables[request], len(self.tables[request])"),
    fact="shorten gives nothing back",
    question="A step has failed. What was reserved for it?",
)
known.change(
    "forgotten-and-not-given-back",
    ("self.pool.drop(self.tables.pop(request))", "self.tables.pop(request)"),
    fact="release forgets the table, and its pages stay taken for good",
    question="After all requests have gone, how many pages are free?",
)
known.change(
    "given-back-and-not-forgotten",
    ("self.pool.drop(self.tables.pop(request))", "self.pool.drop(self.tables[request])"),
    fact="release gives the pages back, and the table stays",
    question="What does your memory know of a request that has gone?",
)
known.change(
    "prompt-alone-is-checked",
    ("if prompt + new > room:", "if prompt > room:"),
    fact="a request is refused only if its prompt is too long, whatever it may write",
    question="The prompt fits exactly, and the request wants eight tokens more. Where should they go?",
)
known.change(
    "one-place-too-few",
    ("if prompt + new > room:", "if prompt + new - 1 > room:"),
    fact="a request that needs one place more than there is room for is let in, as if its last token needed none",
    question="There are 12 places. What does the docstring say of a prompt of 5 tokens and 8 new ones?",
)
known.change(
    "exactly-full-is-refused",
    ("if prompt + new > room:", "if prompt + new >= room:"),
    fact="a request that would fill all places exactly is refused",
    question="There are 12 places. Do 12 tokens fit?",
)
known.change(
    "checked-by-what-is-free",
    ("self.pool.pages * self.storage.page", "self.pool.free * self.storage.page"),
    fact="a request is refused for good because others have the pages at the moment",
    question="All pages are taken just now. Could the request be served later?",
)
known.change(
    "everything-is-let-through",
    ("if prompt + new > room:", "if False:"),
    fact="no request is ever refused",
    question="What becomes of a request that is longer than all pages together?",
)
known.change(
    "tables-in-another-order",
    ("[self.tables[chunk.request] for chunk in chunks]", "[*self.tables.values()]"),
    fact="attend hands on all tables as they came, and not those of the chunks",
    question="A step reads a chunk of the second request, and one of the first. Whose table comes first?",
)
known.change(
    "tables-as-they-were-let-in",
    (
        "[self.tables[chunk.request] for chunk in chunks]",
        "[table for one, table in self.tables.items() if one in [chunk.request for chunk in chunks]]",
    ),
    fact="attend hands on the chunks' tables in the order in which their requests were let in",
    question="A step reads a chunk of the second request, and then one of the first. Whose rows come first in query?",
)
known.change(
    "a-page-more-than-full",
    ("return -(-tokens // self.storage.page)", "return tokens // self.storage.page + 1"),
    fact="tokens that fill their pages get one page more",
    question="How many pages of four do four tokens need?",
)
known.change(
    "rounded-down",
    ("return -(-tokens // self.storage.page)", "return tokens // self.storage.page"),
    fact="a page that would be full in part is not counted",
    question="How many pages of four do five tokens need?",
)
known.change(
    "a-pool-of-its-own",
    ("PagePool(storage.pages) if pool is None else pool", "PagePool(storage.pages)"),
    fact="the pool that is given is left aside",
    question="What is the constructor's second argument for?",
)


@known.accepted("page-by-page")
class PageByPage:
    def __init__(self, storage, pool=None):
        self.storage, self.tables = storage, {}
        self.pool = pool if pool is not None else PagePool(storage.pages)

    def check(self, request):
        tokens, places = request.max_tokens + len(request.prompt), self.storage.page * self.storage.pages
        if places < tokens:
            raise ValueError(f"{tokens} tokens, room for {places}")

    def begin(self, request):
        others = len(self.tables)
        self.tables[request] = []
        if self.grown(request, request.length) and self.pool.free >= others:
            request.read = 0
            return True
        self.release(request)
        return False

    def grown(self, request, tokens):
        table, before = self.tables[request], len(self.tables[request])
        while len(table) * self.storage.page < tokens:
            if not self.pool.free:
                self.pool.drop(table[before:])
                del table[before:]
                return False
            table.extend(self.pool.take(1))
        return True

    def reserve(self, request, count):
        return self.grown(request, request.read + count)

    def shorten(self, request, length):
        table = self.tables[request]
        while (len(table) - 1) * self.storage.page >= length and table:
            self.pool.drop([table.pop()])

    def release(self, request):
        for page in self.tables.pop(request):
            self.pool.drop([page])

    def attend(self, layer, query, key, value, chunks):
        tables = [self.tables[chunk.request] for chunk in chunks]
        return self.storage.attend(layer, query, key, value, chunks, tables)
