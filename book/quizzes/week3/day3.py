"""The quiz of week 3, day 3."""

from typing import Any

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "3.3.1",
    "Pages 0, 1 and 2 have been taken, and page 1 is held by a second request. Then drop([0, 1, 2]). Which pages does "
    "the next take(2) give, out of five?",
    why="Page 1 still has a holder. Free are 0, 2, 3 and 4, and the lowest two are given.",
    mistakes={
        "free-at-the-first-drop": "Page 1 has two holders, and one of them still reads from it.",
        "never-free-again": "Pages 0 and 2 have no holder any more: they are free.",
        "highest-first": "That rule would do as well. Ours gives the lowest numbers first.",
    },
)
def next_pages(pool: Any) -> str:
    one = pool(5)
    taken = one.take(3)
    one.hold(taken[1:2])
    one.drop(taken)
    return ", ".join(map(str, one.take(2)))


@quiz.question(
    "3.3.3",
    "Pages of four. A request has nine tokens, all read, and is shortened to five. How many pages does it keep?",
    why="Four tokens fill the first page, and the fifth stands in the second. The third page goes back.",
    mistakes={
        "half-a-page-lost": "The second page is needed as long as one token is in it.",
        "nothing-is-shortened": "Room that nobody needs is given back.",
    },
)
def pages_kept(memory: Any) -> str:
    from tiny_llm_solution.paged.storage import PagedArrays
    from tiny_llm_solution.serving.request import Request

    one, request = memory(PagedArrays(1, 9, 4, 1, 1)), Request([1] * 9, 4)
    one.begin(request)
    one.shorten(request, 5)
    return str(len(one.tables[request]))


@quiz.question(
    "3.3.4",
    "Requests 0 to 3 hold 5, 4, 3 and 2 places of 14. Request 1 needs three more. Who runs afterwards?",
    why="Request 3 gives back 2, which is not enough, and then request 2 gives back 3.",
    mistakes={
        "the-oldest-goes": "Then the request that is nearest to its end would begin anew, again and again.",
        "one-is-enough": "Two places are free after request 3 has gone, and three are needed.",
        "whoever-asks-goes": "Two younger ones stand behind it: they go first.",
        "nobody-goes": "Then all four wait for one another, for ever.",
    },
)
def who_runs(make_room: Any) -> str:
    from tiny_llm_solution.paged.memory import PagedMemory
    from tiny_llm_solution.paged.storage import PagedArrays
    from tiny_llm_solution.serving.request import Chunk, Request
    from tiny_llm_solution.serving.scheduler import Scheduler, Step

    memory = PagedMemory(PagedArrays(1, 14, 1, 1, 1))
    scheduler: Any = Scheduler(None, memory)
    requests = [Request([1] * 5, 9) for _ in range(4)]
    for number, (request, read) in enumerate(zip(requests, (5, 4, 3, 2), strict=True)):
        request.number, request.read, memory.tables[request] = number, read, memory.pool.take(read)
    scheduler.running = list(requests)
    make_room(scheduler, Chunk(requests[1], 4, [1] * 3, 1), Step())
    return ", ".join(str(request.number) for request in scheduler.running)


@quiz.measured(
    "Which room wastes nothing, and is it the one that you would choose?",
    right="pages of 1",
    why="Its last page is always full. But each token is an entry of a table, and attention goes by the table.",
    mistakes={
        "pages of 16": "On average nearly half of the last page is empty: 7.5 places of a request.",
        "reserved for 2,048": "That wastes most: texts are short, and their arrays are as long as the longest.",
    },
)
def wastes_nothing(record: Record, row: str) -> str:
    return row if "empty: %" in record[row] else ""
