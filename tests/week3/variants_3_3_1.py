"""Known programs of task 3.3.1, the page pool."""

import mlx.core as mx
from tests.week3.played import numbers, play_pool
from tiny_llm_solution.paged.pool import OutOfPages

from tiny_llm_course.testkit.variants import Variants

known = Variants("3.3.1")


def played(program, pages, *script):
    return numbers(play_pool(program, pages, script))


known.probe_table(
    takes=lambda program: played(
        program, 6, ("take", 2), ("take", 3), ("drop", [3]), ("drop", [0, 2]), ("take", 2), ("take", 2)
    ),
    refuses_too_many=lambda program: played(
        program, 4, ("take", 5), ("take", 3), ("take", 2), ("take", 1), ("take", 1)
    ),
    shares=lambda program: played(
        program, 4, ("take", 2), ("hold", [1]), ("drop", [1]), ("take", 1), ("drop", [1]), ("take", 1)
    ),
    counts_twice=lambda program: played(program, 3, ("take", 2), ("hold", [1, 1]), ("drop", [1, 1]), ("drop", [1])),
    takes_none=lambda program: played(program, 4, ("take", 1), ("take", 0), ("take", 2)),
    drops_the_last_two_at_once=lambda program: played(
        program, 3, ("take", 2), ("hold", [1]), ("drop", [1, 1]), ("take", 2)
    ),
    refuses_a_second_drop=lambda program: played(program, 4, ("take", 3), ("drop", [1]), ("drop", [1]), ("take", 2)),
    refuses_twice_in_a_list=lambda program: played(program, 4, ("take", 3), ("drop", [2, 2]), ("take", 1)),
    drops_all_or_nothing=lambda program: played(program, 4, ("take", 2), ("drop", [0, 3])),
    refuses_to_share=lambda program: played(program, 4, ("take", 2), ("hold", [3]), ("take", 2)),
    shares_all_or_nothing=lambda program: played(program, 4, ("take", 2), ("hold", [0, 3])),
    of_iterators=lambda program: played(
        program, 4, ("take", 4), ("hold", (0, 1)), ("drop", (0, 1, 2)), ("drop", (1, 2))
    ),
)


@known.probe()
def pool_out_of_pages(program):
    """Whether what is raised is an OutOfPages."""
    try:
        program(2).take(3)
    except ValueError as error:
        return mx.array(type(error).__name__ == "OutOfPages")
    return mx.array(2)


known.not_timed("counts of pages, of which a step takes a handful")


known.change(
    "fewer-if-there-are-fewer",
    ("if count > self.free:", "if not self.free and count:"),
    ("range(count)", "range(min(count, self.free))"),
    fact="take gives as many pages as there are, where fewer are free than were asked for",
    question="A request needs three pages, and two are free. What can it do with the two?",
)
known.change(
    "none-if-there-are-fewer",
    ('raise OutOfPages(f"{count} pages are needed, but {self.free} of {self.pages} are free")', "return []"),
    fact="take gives an empty list if fewer pages are free than were asked for",
    question="Three pages are asked for, and two are free. How does the caller hear of it?",
)
known.change(
    "taken-until-none-is-left",
    (
        'raise OutOfPages(f"{count} pages are needed, but {self.free} of {self.pages} are free")',
        """
        while self._free:
            self._holders[heapq.heappop(self._free)] = 1
        raise OutOfPages(f"{count} pages are needed")
        """,
    ),
    fact="a take that fails has taken all free pages, which nobody knows of",
    question="After take has raised OutOfPages, what should `free` say?",
)
known.change(
    "last-page-never-given",
    ("if count > self.free:", "if count and count >= self.free:"),
    fact="the last free page is never given",
    question="One page is free, and one is asked for. Is that too many?",
)
known.change(
    "none-is-all",
    (
        "taken = [heapq.heappop(self._free) for _ in range(count)]",
        """
        taken = sorted(self._free, reverse=True)[-count:][::-1]
        self._free = sorted(set(self._free) - set(taken))
        """,
    ),
    fact="take(0) takes all pages that are free",
    question="The next token fits into a page that is there, and 0 pages are taken. How many are free afterwards?",
)
known.change(
    "highest-first",
    ("heapq.heappop(self._free)", "self._free.pop(self._free.index(max(self._free)))"),
    fact="the highest numbers are given first",
    question="Pages 1 and 4 are free. Which of them does the docstring promise?",
)
known.change(
    "in-the-order-of-their-return",
    ("heapq.heappop(self._free)", "self._free.pop(0)"),
    ("heapq.heappush(self._free, page)", "self._free.append(page)"),
    fact="pages are given in the order in which they came back",
    question="Page 3 comes back, and then page 0. Which is the lowest that is free?",
)
known.change(
    "taken-and-not-held",
    ("self._holders[page] = 1", "self._holders[page] = 0"),
    fact="a page that was taken has no holder",
    question="take has given page 0 to a request. What does holders(0) say?",
)
known.change(
    "free-at-the-first-drop",
    ("self._holders[page] -= count", "self._holders[page] = 0"),
    fact="a page is free as soon as one of its holders drops it",
    question="Two requests hold a page, and one of them ends. Who reads from that page tomorrow?",
)
known.change(
    "never-free-again",
    ("heapq.heappush(self._free, page)", "pass"),
    fact="a page that nobody holds any more is not free again",
    question="After all requests have ended, what should `free` say?",
)
known.change(
    "free-twice",
    ("heapq.heappush(self._free, page)", "self._free = sorted([*self._free, *[page] * count])"),
    fact="a page whose last two holders go in one drop is free twice, and is given to two requests",
    question="drop([2, 2]) takes the last two holders from page 2. To how many requests may it be given next?",
)
known.change(
    "free-at-every-drop",
    ("if not self._holders[page]:\n    heapq.heappush(self._free, page)", "heapq.heappush(self._free, page)"),
    fact="a page that is dropped is given to the next one although others still hold it",
    question="When does a page come back to those that are free?",
)
known.change(
    "second-drop-taken",
    (
        'raise ValueError(f"page {page} is dropped {count} times, but {self._holders[page]} hold it")',
        "dropped[page] = 0",
    ),
    (
        "if not self._holders[page]:\n    heapq.heappush(self._free, page)",
        "if count and not self._holders[page]:\n    heapq.heappush(self._free, page)",
    ),
    fact="a drop of a page that nobody holds is passed over in silence",
    question="A request drops a page that it does not hold. Whose page may it be by then?",
)
known.change(
    "each-page-once-in-a-drop",
    ("dropped = Counter(pages)", "dropped = Counter(set(pages))"),
    fact="a page that stands twice in a list is dropped once",
    question="What does drop([2, 2]) take from page 2?",
)
known.change(
    "each-page-once-in-a-hold",
    ("pages = list(pages)", "pages = list(set(pages))"),
    fact="a page that stands twice in a list is held once",
    question="What does hold([2, 2]) add to page 2?",
)
known.change(
    "dropped-before-looking-at-all",
    ("for page, count in dropped.items():\n    self._holders[page] -= count", "    self._holders[page] -= count"),
    fact="a drop that is refused has dropped the pages before the one that was wrong",
    question="drop([0, 3]) is refused because of page 3. Who holds page 0 now?",
)
known.change(
    "held-before-looking-at-all",
    ("for page in pages:\n    self._holders[page] += 1", "    self._holders[page] += 1"),
    fact="a hold that is refused has counted the pages before the one that was wrong",
    question="hold([0, 3]) is refused because of page 3. How many hold page 0 now?",
)
known.change(
    "free-pages-can-be-held",
    ('raise ValueError(f"page {page} is free', 'ValueError(f"page {page} is free'),
    fact="a page that is free can be held, and is given to somebody else all the same",
    question="Page 3 is free, and somebody holds it. What does the next take give?",
)
known.change(
    "iterator-gone-through-twice",
    ("pages = list(pages)", "pass"),
    fact="pages that come as an iterator are looked at, and then not counted",
    question="How often can you go through a generator?",
)
known.change(
    "another-error",
    ("raise OutOfPages(", "raise ValueError("),
    fact="too few pages are any ValueError, and not an OutOfPages",
    question="A caller catches OutOfPages and waits. Which errors must it not take for that?",
)


@known.accepted("a-set-and-a-dict")
class SetAndDict:
    def __init__(self, pages):
        self.pages, self.held, self.rest = pages, {}, set(range(pages))

    @property
    def free(self):
        return len(self.rest)

    def holders(self, page):
        return self.held.get(page, 0)

    def take(self, count):
        given = sorted(self.rest)[:count]
        if len(given) < count:
            raise OutOfPages(f"{len(given)} are free, not {count}")
        self.rest -= set(given)
        self.held |= dict.fromkeys(given, 1)
        return given

    def hold(self, pages):
        after = dict(self.held)
        for page in pages:
            if page not in self.held:
                raise ValueError(f"page {page} is free")
            after[page] += 1
        self.held = after

    def drop(self, pages):
        after = dict(self.held)
        for page in pages:
            if not after.get(page):
                raise ValueError(f"nobody holds page {page}")
            after[page] -= 1
        self.rest |= {page for page, count in after.items() if not count}
        self.held = {page: count for page, count in after.items() if count}
