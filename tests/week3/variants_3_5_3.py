"""Known programs of task 3.5.3, the memory that remembers."""

import re
from types import SimpleNamespace

import mlx.core as mx
from tests.week3.prefixes import edges_of, numbers
from tiny_llm_solution.paged.memory import PagedMemory
from tiny_llm_solution.prefix.eviction import evict
from tiny_llm_solution.prefix.tree import RadixTree
from tiny_llm_solution.serving.request import Request

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.5.3")


def played(program, script, page=2, pages=20):
    """What comes of requests that begin with a text, "+", read so many tokens and gain new ones, "r", or are only given
    room for them, "w", and end, "-", or are put back, "~"; with "=", one begins, reads all, gains 9 and ends."""
    memory, requests, found = program(SimpleNamespace(page=page, pages=pages)), {}, []
    for move in re.sub(r"=:(\w):(\d+)", r"+:\1:\2 r:\1:0:9 -:\1", script).split():
        what, name, *more = move.split(":")
        if what == "+":
            if more:
                requests[name] = Request([*map(int, more[0])], 50)
            request = requests[name]
            request.read = 0
            let_in = memory.begin(request)
            found += [-1, let_in]
            if not let_in:
                found.append(request.read)
                request.read = 0
        elif what == "r":
            count = int(more[0]) or requests[name].unread
            came = memory.reserve(requests[name], count)
            found += [-2, came]
            if came:
                requests[name].read += count
                requests[name].output += map(int, "".join(more[1:]))
        elif what == "w":
            found += [-2, memory.reserve(requests[name], int(more[0]))]
        else:
            requests[name].finished = "length" if what == "-" else ""
            memory.release(requests[name])
        found += [memory.asked, memory.hit, memory.pool.free]
        for each in requests.values():
            found += [-3, each.read, *sorted(memory.tables.get(each, [-4]))]
    pool = memory.pool
    rate = round(1000 * memory.hit_rate)
    tree = [page for held, _ in edges_of(memory.tree).values() for page in held]
    return mx.array([*found, -5, rate, *sorted(tree), -6, *(pool.holders(page) for page in range(pages))])


@known.probe()
def prefix_of_nothing(program):
    memory = program(SimpleNamespace(page=2, pages=4))
    return mx.array([memory.hit_rate, memory.asked, memory.hit, *numbers(edges_of(memory.tree))])


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


@known.sized("64 requests of 500 tokens, which begin alike")
def sized(program):
    storage = SimpleNamespace(page=16, pages=600)

    def run():
        memory = program(storage)
        for number in range(64):
            request = Request([*range(400), *range(1000 * number, 1000 * number + 100)], 1)
            memory.begin(request)
            memory.reserve(request, request.unread)
            request.read = request.length
            memory.release(request)
        return mx.array(memory.hit_rate)

    return run


known.change(
    "all-tokens-looked-for",
    ("request.tokens(0, request.length - 1)", "request.tokens(0, request.length)"),
    fact="all tokens of a request may be found, so that none is left to read",
    question="The whole prompt is found. Of which token are the logits that the first new token is drawn from?",
)
known.change(
    "last-page-given-up",
    (
        "found = self.tree.match(request.tokens(0, request.length - 1))",
        """
        found = self.tree.match(request.tokens(0, request.length))
        if len(found) * self.storage.page == request.length:
            found.pop()
        """,
    ),
    fact="all tokens are looked for, and the last page is given up if all of them are found",
    question="The last page was found, and nobody reads it. What does its edge say of when it was used?",
)
known.change(
    "prompt-looked-for-alone",
    ("request.tokens(0, request.length - 1)", "request.prompt[:-1]"),
    fact="only the prompt is looked for, without its last token, also when a request comes back with output",
    question="A request is put back after 500 tokens of output. Where are their keys and values, and who finds them?",
)
known.change(
    "found-pages-not-held",
    ("self.pool.hold(found)  # before any page is evicted", "pass"),
    ("self.pool.drop(found)", "pass"),
    fact="a request uses the pages that were found without holding them",
    question="Two requests use a page. How many may drop it before it belongs to somebody else?",
)
known.change(
    "held-too-late",
    ("self.pool.hold(found)  # before any page is evicted", "pass"),
    ("self.pool.drop(found)", "pass"),
    ("self.tables[request] = found", "self.pool.hold(found)\nself.tables[request] = found"),
    fact="the pages that were found are held only after others were evicted",
    question="The pool is full, and what is found is what has not been used for the longest time. What goes first?",
)
known.change(
    "held-for-ever-if-refused",
    ("self.pool.drop(found)", "pass"),
    fact="a request that is not let in goes on holding what was found for it",
    question="A request waits, and is asked again at every step. How many holders has the first page of its prompt?",
)
known.change(
    "unread-pages-kept",
    ("request.read // self.storage.page", "request.length // self.storage.page"),
    fact="the tree is given pages of tokens that have not been read",
    question="A request is let in, and another one right behind it. What is written in the first one's pages?",
)
known.change(
    "whole-table-kept",
    ("request.read // self", "min(request.length, request.read + self.storage.page - 1) // self"),
    fact="the tree is given the page that is only begun",
    question="Three tokens are read, and a page has two. What is in the second place of the second page?",
)
known.change(
    "prompts-alone",
    ("request.read // self.storage.page", "min(request.read, len(request.prompt)) // self.storage.page"),
    fact="the tree is given pages of the prompt alone",
    question="A chat's second turn begins with the first turn's question, and its answer. Who has read the answer?",
)
known.change(
    "nothing-kept-at-the-end",
    ("self._share(request)\nsuper().release(request)", "super().release(request)"),
    fact="a request that goes takes all its pages with it",
    question="One request ends, and the next one asks the same. Who has held the pages in between?",
)
known.change(
    "nothing-kept-of-who-is-put-back",
    (
        "self._share(request)\nsuper().release(request)",
        "if request.finished:\n    self._share(request)\nsuper().release(request)",
    ),
    fact="of a request that is put back, nothing is kept",
    question="A request is put back after 2,000 tokens, and comes again. How many of them does it read once more?",
)
known.change(
    "found-only-at-the-end",
    ("self._share(other)", "pass"),
    fact="what a request has read is found only after it has ended",
    question="A hundred chats with one system prompt come within a second. How many of them read it?",
)
known.change(
    "no-eviction-for-who-comes",
    ("if not self._free(needed + len(self.tables)):", "if self.pool.free < needed + len(self.tables):"),
    fact="nobody is let in while the tree has the room",
    question="All pages are the tree's. How long must the next request wait until one of them is free?",
)
known.change(
    "own-room-forgotten",
    ("self.pages_for(request.read + count) - len(self.tables[request])", "self.pages_for(count)"),
    fact="who writes has pages evicted for all its new tokens, whatever room its own pages have",
    question="A request writes one token, and its last page is half empty. How many pages must go?",
)
known.change(
    "own-room-forgotten-if-refused",
    (
        "self._free(self.pages_for(request.read + count) - len(self.tables[request]))",
        """
        if super().reserve(request, count):
            return True
        self._free(self.pages_for(count))
        """,
    ),
    fact="once a page is lacking, pages are evicted for all new tokens, whatever room the last page has",
    question="Three tokens are to come, and there is a place for the first of them. How many pages do they need?",
)
known.change(
    "no-eviction-for-who-writes",
    ("self._free(self.pages_for(request.read + count) - len(self.tables[request]))", "pass"),
    fact="a request that needs another page gets none while the tree has them all",
    question="A request needs a page, and the tree has ten which nobody uses. Should a younger request be put back?",
)
known.change(
    "everything-evicted",
    ("evict(self.tree, count - self.pool.free)", "evict(self.tree, self.pool.pages if count > self.pool.free else 0)"),
    fact="the tree loses everything as soon as one page is lacking",
    question="How many pages are lacking, and how many does your call of evict ask for?",
)
known.change(
    "all-that-are-needed",
    ("evict(self.tree, count - self.pool.free)", "evict(self.tree, count if count > self.pool.free else 0)"),
    fact="as many pages are evicted as are needed, if some are lacking, those that are free included",
    question="Three pages are needed, and two are free. How many are lacking?",
)
known.change(
    "free-pages-not-counted",
    ("evict(self.tree, count - self.pool.free)", "evict(self.tree, count)"),
    fact="as many pages are evicted as are needed, although some are free",
    question="Three pages are needed, and two are free. How many must go?",
)
known.change(
    "room-for-what-is-found",
    ("needed = self.pages_for(request.length) - len(found)", "needed = self.pages_for(request.length)"),
    fact="a request is given new pages for all its tokens, behind those that were found",
    question="Of ten pages of a prompt nine are found. How many new ones does it need?",
)
known.change(
    "no-page-for-who-is-here",
    ("self._free(needed + len(self.tables))", "self._free(needed)"),
    fact="a request is let in although none is left for those that are here to grow",
    question="The pool is full to the last page with prompts. What becomes of their next tokens?",
)
known.change(
    "everything-read-anew",
    ("request.read = len(found) * self.storage.page", "request.read = 0"),
    fact="a request gets the pages that were found, and reads its tokens into them anew",
    question="Where does the model begin to read, if `read` is 0, and whose pages does it write to?",
)
known.change(
    "pages-for-tokens",
    ("request.read = len(found) * self.storage.page", "request.read = len(found)"),
    fact="a request's `read` is the number of pages that were found",
    question="In which unit does a request count what has been read?",
)
known.change(
    "read-of-who-is-refused",
    ("needed = self.pages_for", "request.read = len(found) * self.storage.page\nneeded = self.pages_for"),
    ("request.read = len(found) * self.storage.page\nself.asked += request.length", "self.asked += request.length"),
    fact="a request that is not let in has another `read` than before",
    question="A request waits, and has no pages. How many of its tokens are in memory?",
)
known.change(
    "prompt-tokens-asked",
    ("self.asked += request.length", "self.asked += len(request.prompt)"),
    fact="of a request that comes back only its prompt is counted in `asked`",
    question="A request of 5 tokens has written 4 when it is put back. How many must be read when it returns?",
)
known.change(
    "refused-are-asked",
    ("needed = self.pages_for", "self.asked += request.length\nneeded = self.pages_for"),
    ("self.asked += request.length\nself.hit += request.read", "self.hit += request.read"),
    fact="the tokens of requests that are not let in are counted in `asked`, and not in `hit`",
    question="A request waits for ten steps, and is let in then. How often are its tokens asked for?",
)
known.change(
    "refused-are-counted",
    (
        "needed = self.pages_for",
        "self.asked += request.length\nself.hit += len(found) * self.storage.page\nneeded = self.pages_for",
    ),
    ("self.asked += request.length\nself.hit += request.read\nreturn True", "return True"),
    fact="requests that are not let in are counted as well",
    question="A request waits for ten steps. How often is it asked for, and how often read?",
)
known.change(
    "rate-of-the-others",
    ("return self.hit / self.asked if self.asked else 0.0", "return 1 - self.hit / self.asked if self.asked else 0.0"),
    fact="hit_rate is the share that was not found",
    question="Nothing was ever found. Which number should the rate be?",
)
known.change(
    "two-lots-of-pages",
    ("self.pool.hold(known)\nself.pool.drop(table[:whole])\ntable[:whole] = known", ""),
    ("known = self.tree.insert", "self.tree.insert"),
    fact="a request keeps its own pages where the tree has the same tokens already",
    question="Two requests have read the same prompt, each into pages of its own. How many of these pages are needed?",
)
known.change(
    "own-pages-not-dropped",
    ("self.pool.drop(table[:whole])", "pass"),
    fact="a request that takes the tree's pages goes on holding its own",
    question="A table has new pages in it. Who drops those that stood there before?",
)
known.change(
    "tree-s-pages-not-held",
    ("self.pool.hold(known)", "pass"),
    fact="a request takes the tree's pages without holding them",
    question="Which holders has a page that the tree has, and two tables?",
)


@known.accepted("one-function")
class OneFunction(PagedMemory):
    def __init__(self, storage, pool=None):
        super().__init__(storage, pool)
        self.tree, self.asked, self.hit = RadixTree(self.pool, storage.page), 0, 0

    @property
    def hit_rate(self):
        return self.hit / max(self.asked, 1)

    def begin(self, request):
        size = self.storage.page
        for other, table in self.tables.items():
            self.give(other, table)
        found = self.tree.match(request.tokens(0, request.length)[:-1])
        self.pool.hold(found)
        new = -(-request.length // size) - len(found)
        evict(self.tree, new + len(self.tables) - self.pool.free)
        if new + len(self.tables) <= self.pool.free:
            self.tables[request] = [*found, *self.pool.take(new)]
            request.read = size * len(found)
            self.asked, self.hit = self.asked + request.length, self.hit + request.read
            return True
        self.pool.drop(found)
        return False

    def reserve(self, request, count):
        if super().reserve(request, count):
            return True
        evict(self.tree, self.pages_for(request.read + count) - len(self.tables[request]) - self.pool.free)
        return super().reserve(request, count)

    def release(self, request):
        table = self.tables[request]
        whole = request.read // self.storage.page
        self.tree.insert(request.tokens(0, whole * self.storage.page), table[:whole])
        super().release(request)

    def give(self, request, table):
        whole = request.read // self.storage.page
        for at, page in enumerate(self.tree.insert(request.tokens(0, whole * self.storage.page), table[:whole])):
            if page != table[at]:
                self.pool.hold([page])
                self.pool.drop([table[at]])
                table[at] = page
