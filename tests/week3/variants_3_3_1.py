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
        program,
        6,
        ("allocate", 2),
        ("allocate", 3),
        ("release", [3]),
        ("release", [0, 2]),
        ("allocate", 1),
        ("allocate", 3),
    ),
    refuses_too_many=lambda program: played(
        program, 4, ("allocate", 5), ("allocate", 3), ("allocate", 2), ("allocate", 1), ("allocate", 1)
    ),
    shares=lambda program: played(
        program,
        4,
        ("allocate", 2),
        ("retain", [1]),
        ("release", [1]),
        ("allocate", 1),
        ("release", [1]),
        ("allocate", 1),
    ),
    counts_twice=lambda program: played(
        program, 3, ("allocate", 2), ("retain", [1, 1]), ("release", [1, 1]), ("release", [1])
    ),
    takes_none=lambda program: played(program, 4, ("allocate", 1), ("allocate", 0), ("allocate", 2)),
    drops_the_last_two_at_once=lambda program: played(
        program, 3, ("allocate", 2), ("retain", [1]), ("release", [1, 1]), ("allocate", 2)
    ),
    refuses_a_second_drop=lambda program: played(
        program, 4, ("allocate", 3), ("release", [1]), ("release", [1]), ("allocate", 2)
    ),
    refuses_twice_in_a_list=lambda program: played(program, 4, ("allocate", 3), ("release", [2, 2]), ("allocate", 1)),
    drops_all_or_nothing=lambda program: played(program, 4, ("allocate", 2), ("release", [0, 3])),
    refuses_to_share=lambda program: played(program, 4, ("allocate", 2), ("retain", [3]), ("allocate", 2)),
    shares_all_or_nothing=lambda program: played(program, 4, ("allocate", 2), ("retain", [0, 3])),
    of_iterators=lambda program: played(
        program, 4, ("allocate", 4), ("retain", (0, 1)), ("release", (0, 1, 2)), ("release", (1, 2))
    ),
)


@known.probe()
def pool_out_of_pages(program):
    """Return whether the error is an OutOfPages."""
    try:
        program(2).allocate(3)
    except ValueError as error:
        return mx.array(type(error).__name__ == "OutOfPages")
    return mx.array(2)


known.not_timed("counts of pages, of which a step takes a handful")


known.change(
    "fewer-if-there-are-fewer",
    ("if count > self.num_free:", "if not self.num_free and count:"),
    ("range(count)", "range(min(count, self.num_free))"),
    fact="allocate returns as many pages as are free when too few are",
    question="A request needs three pages, and two are free. What can it do with the two?",
)
known.change(
    "none-if-there-are-fewer",
    ('raise OutOfPages(f"{count} pages are needed, but {self.num_free} of {self.pages} are free")', "return []"),
    fact="allocate returns an empty list when too few pages are free",
    question="Three pages are requested, and two are free. How does the caller find out?",
)
known.change(
    "never-all",
    ("if count > self.num_free:", "if count >= self.num_free:"),
    fact="allocate raises if exactly as many pages are free as it should allocate",
    question="Two pages are free, and two are requested. Are there enough?",
)
known.change(
    "taken-until-none-is-left",
    (
        'raise OutOfPages(f"{count} pages are needed, but {self.num_free} of {self.pages} are free")',
        """
        while self._free:
            self._ref_counts[heapq.heappop(self._free)] = 1
        raise OutOfPages(f"{count} pages are needed")
        """,
    ),
    fact="a failed allocate leaks all free pages",
    question="After allocate has raised OutOfPages, what should num_free be?",
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
    fact="allocate(0) takes all free pages",
    question="The next token fits into an existing page, and 0 pages are allocated. How many are free afterwards?",
)
known.change(
    "highest-first",
    ("heapq.heappop(self._free)", "self._free.pop(self._free.index(max(self._free)))"),
    fact="the highest-numbered pages are allocated first",
    question="Pages 1 and 4 are free. Which of them does the docstring promise?",
)
known.change(
    "in-the-order-of-their-return",
    ("heapq.heappop(self._free)", "self._free.pop(0)"),
    ("heapq.heappush(self._free, page)", "self._free.append(page)"),
    fact="pages are allocated in the order in which they were freed",
    question="Page 3 is freed, and then page 0. Which is the lowest free page?",
)
known.change(
    "last-freed-first",
    ("list(range(pages))  #", "list(range(pages))[::-1]  #"),
    ("heapq.heappop(self._free)", "self._free.pop()"),
    ("heapq.heappush(self._free, page)", "self._free.append(page)"),
    fact="the page that was freed last is allocated first",
    question="Page 0 is freed, and then page 3. Which is the lowest free page?",
)
known.change(
    "appended-to-the-heap",
    ("heapq.heappush(self._free, page)", "self._free.append(page)"),
    fact="freed pages are appended to the list that heappop takes from, so it is no longer a heap",
    question="The list is [5], and page 3 is appended. Which page does heappop return?",
)
known.change(
    "taken-and-not-held",
    ("self._ref_counts[page] = 1", "self._ref_counts[page] = 0"),
    fact="an allocated page has reference count 0",
    question="allocate has given page 0 to a request. What is ref_count(0)?",
)
known.change(
    "free-at-the-first-drop",
    ("self._ref_counts[page] -= count", "self._ref_counts[page] = 0"),
    fact="a page is free as soon as one of its references is released",
    question="Two requests hold a page, and one of them finishes. What does the other still need?",
)
known.change(
    "never-free-again",
    ("heapq.heappush(self._free, page)", "pass"),
    fact="a page whose reference count reaches 0 is not freed",
    question="After all requests have finished, what should num_free be?",
)
known.change(
    "free-twice",
    ("heapq.heappush(self._free, page)", "self._free = sorted([*self._free, *[page] * count])"),
    fact="a page whose last two references go in one release is freed twice, and two requests get it",
    question="release([2, 2]) drops the last two references to page 2. To how many requests may it be allocated next?",
)
known.change(
    "free-at-every-drop",
    ("if not self._ref_counts[page]:\n    heapq.heappush(self._free, page)", "heapq.heappush(self._free, page)"),
    fact="a released page is reallocated although other requests still hold it",
    question="When does a page return to the free list?",
)
known.change(
    "second-drop-taken",
    (
        'raise ValueError(f"page {page}: {count} releases, but a reference count of {self._ref_counts[page]}")',
        "dropped[page] = 0",
    ),
    (
        "if not self._ref_counts[page]:\n    heapq.heappush(self._free, page)",
        "if count and not self._ref_counts[page]:\n    heapq.heappush(self._free, page)",
    ),
    fact="releasing a free page is silently ignored",
    question="A request releases a page that it does not hold. Whose page may it be by then?",
)
known.change(
    "each-entry-alone",
    ("if count > self._ref_counts[page]:", "if not self._ref_counts[page]:"),
    (
        "if not self._ref_counts[page]:\n    heapq.heappush(self._free, page)",
        "if self._ref_counts[page] <= 0:\n    heapq.heappush(self._free, page)",
    ),
    fact="release checks each number in the list alone, so a reference count may become negative",
    question="Page 2 has one reference. Which entry of [2, 2] does your check reject?",
)
known.change(
    "each-page-once-in-a-drop",
    ("dropped = Counter(pages)", "dropped = Counter(set(pages))"),
    fact="a page that is listed twice is released once",
    question="How far does release([2, 2]) lower the reference count of page 2?",
)
known.change(
    "each-page-once-in-a-hold",
    ("pages = list(pages)", "pages = list(set(pages))"),
    fact="a page that is listed twice is retained once",
    question="How far does retain([2, 2]) raise the reference count of page 2?",
)
known.change(
    "dropped-before-looking-at-all",
    ("for page, count in dropped.items():\n    self._ref_counts[page] -= count", "    self._ref_counts[page] -= count"),
    fact="a release that raises has already released the pages before the invalid one",
    question="release([0, 3]) raises because of page 3. What is the reference count of page 0 now?",
)
known.change(
    "held-before-looking-at-all",
    ("for page in pages:\n    self._ref_counts[page] += 1", "    self._ref_counts[page] += 1"),
    fact="a retain that raises has already retained the pages before the invalid one",
    question="retain([0, 3]) raises because of page 3. What is the reference count of page 0 now?",
)
known.change(
    "free-pages-can-be-held",
    ('raise ValueError(f"page {page} is free', 'ValueError(f"page {page} is free'),
    fact="a free page can be retained, and is still allocated to another request",
    question="Page 3 is free, and a request retains it. What does the next allocate return?",
)
RETAINED = ("pages = list(pages)", "pass")
DROPPED = (
    "for page, count in dropped.items():\n    self._ref_counts[page] -= count",
    "for page in pages:\n    self._ref_counts[page] -= 1",
)
for name, edits in (
    ("iterator-gone-through-twice", [RETAINED]),
    ("iterator-gone-through-twice-in-a-drop", [DROPPED]),
    ("iterator-gone-through-twice-in-both", [RETAINED, DROPPED]),
):
    known.change(
        name,
        *edits,
        fact="pages from an iterator are validated, and then not counted",
        question="How often can you iterate over a generator?",
    )
known.change(
    "another-error",
    ("raise OutOfPages(", "raise ValueError("),
    fact="too few free pages raise a plain ValueError instead of OutOfPages",
    question="A caller catches OutOfPages and waits. Which errors must it not catch with it?",
)


@known.accepted("a-set-and-a-dict")
class SetAndDict:
    def __init__(self, pages):
        self.pages, self.held, self.rest = pages, {}, set(range(pages))

    @property
    def num_free(self):
        return len(self.rest)

    def ref_count(self, page):
        return self.held.get(page, 0)

    def allocate(self, count):
        given = sorted(self.rest)[:count]
        if len(given) < count:
            raise OutOfPages(f"{len(given)} are free, not {count}")
        self.rest -= set(given)
        self.held |= dict.fromkeys(given, 1)
        return given

    def retain(self, pages):
        after = dict(self.held)
        for page in pages:
            if page not in self.held:
                raise ValueError(f"page {page} is free")
            after[page] += 1
        self.held = after

    def release(self, pages):
        after = dict(self.held)
        for page in pages:
            if not after.get(page):
                raise ValueError(f"page {page} is not held")
            after[page] -= 1
        self.rest |= {page for page, count in after.items() if not count}
        self.held = {page: count for page, count in after.items() if count}
