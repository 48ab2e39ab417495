"""The quiz of week 3, day 3."""

from typing import Any

from tiny_llm_course.dev.book.quizzes import Quiz, Record

quiz = Quiz()


@quiz.question(
    "3.3.1",
    "Of five pages, 0, 1 and 2 are allocated, and a second request retains page 1. Then `release([0, 1, 2])` is "
    "called. Which pages does the next `allocate(2)` return?",
    why="Page 1 still has a holder. Pages 0, 2, 3 and 4 are free, and the lowest two are allocated.",
    mistakes={
        "free-at-the-first-drop": "Page 1 has two holders, and the second request still holds it.",
        "never-free-again": "Pages 0 and 2 have no holders left, so they are free.",
        "highest-first": "That rule would work, too, but our pool allocates the lowest-numbered pages first.",
    },
)
def next_pages(pool: Any) -> str:
    one = pool(5)
    taken = one.allocate(3)
    one.retain(taken[1:2])
    one.release(taken)
    return ", ".join(map(str, one.allocate(2)))


@quiz.question(
    "3.3.3",
    "Pages have four slots. A request with nine computed tokens is truncated to five. How many pages does it keep?",
    why="Four tokens fill the first page, and the fifth is in the second. The third page is released.",
    mistakes={
        "half-a-page-lost": "The fifth token is in the second page.",
        "nothing-is-shortened": "Five tokens need only two pages, so the third page must be released.",
    },
)
def pages_kept(memory: Any) -> str:
    from tiny_llm_solution.paged.storage import PagedArrays
    from tiny_llm_solution.serving.request import Request

    one, request = memory(PagedArrays(1, 9, 4, 1, 1)), Request([1] * 9, 4)
    one.admit(request)
    one.truncate(request, 5)
    return str(len(one.block_tables[request]))


@quiz.question(
    "3.3.4",
    "A cache has 14 slots, and requests 0 to 3 hold 5, 4, 3 and 2 of them. Request 1 needs three more slots. Which "
    "requests run afterwards?",
    why="Preempting request 3 frees 2 slots, which is not enough. Preempting request 2 frees 3 more slots.",
    mistakes={
        "the-oldest-goes": "No request would be safe from preemption, and two could preempt each other forever.",
        "one-is-enough": "Two slots are free after request 3 is preempted, and three are needed.",
        "requester-preempted": "Two younger requests are preempted before it.",
        "never-preempts": "Without preemption, the requests would wait for one another forever.",
    },
)
def who_runs(preempt_until_reserved: Any) -> str:
    from tiny_llm_solution.paged.kv_cache import PagedKVCache
    from tiny_llm_solution.paged.storage import PagedArrays
    from tiny_llm_solution.serving.request import Chunk, Request
    from tiny_llm_solution.serving.scheduler import Scheduler, Step

    memory = PagedKVCache(PagedArrays(1, 14, 1, 1, 1))
    scheduler: Any = Scheduler(None, memory)
    requests = [Request([1] * 5, 9) for _ in range(4)]
    for number, (request, read) in enumerate(zip(requests, (5, 4, 3, 2), strict=True)):
        request.request_id, request.num_computed_tokens, memory.block_tables[request] = (
            number,
            read,
            memory.pool.allocate(read),
        )
    scheduler.running = list(requests)
    preempt_until_reserved(scheduler, Chunk(requests[1], 4, [1] * 3, 1), Step())
    return ", ".join(str(request.request_id) for request in scheduler.running)


@quiz.measured(
    "In our own run, pages of 4 or 1 tokens waste less memory than pages of 16. Why do no more requests fit?",
    right="The memory that they save is less than the next request needs.",
    why="Pages of 16 waste only about 2 % of the memory, and requests have up to 600 tokens.",
    mistakes={
        "The longer block tables take that memory.": "An entry has a few bytes, and the pool stores only keys and "
        "values.",
        "They slow the decode step down.": "Pages of one token do, but time does not limit how many requests fit.",
        "Each request reserves its longest sequence.": "That is what the reserved arrays do. With pages, a request "
        "takes only the pages that its tokens need.",
    },
)
def no_more_fit(record: Record, cause: str) -> str:
    fit, wasted = ([float(record[f"pages of {n}"][name]) for n in (16, 4, 1)] for name in ("requests", "wasted: %"))
    return cause if len(set(fit)) == 1 and wasted == sorted(wasted, reverse=True) and round(wasted[0]) == 2 else ""
