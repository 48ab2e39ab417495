"""The quiz of week 3, day 5."""

from types import SimpleNamespace
from typing import Any

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "3.5.1",
    "A page has two tokens. The text 1 2 3 4 5 6 is in pages 0, 1 and 2, in one edge. Then 1 2 3 4 7 8 is inserted and "
    "1 2 3 4 5 6 is looked for. Which pages come back?",
    why="The edge is cut behind page 1. Its second half hangs below the first, beside the new text, and is found.",
    mistakes={
        "tail-lost": "The second half of an edge that is cut belongs to a text that is still there.",
        "whole-edge-or-nothing": "Then nobody would share anything that is not a whole text.",
    },
)
def pages_after_a_cut(tree: Any) -> str:
    from tiny_llm_solution.paged.pool import PagePool

    pool = PagePool(9)
    growing = tree(pool, 2)
    growing.insert([1, 2, 3, 4, 5, 6], pool.take(3))
    growing.insert([1, 2, 3, 4, 7, 8], pool.take(3))
    return ", ".join(map(str, growing.match([1, 2, 3, 4, 5, 6]))) or "none"


@quiz.question(
    "3.5.2",
    "`That is a blue` is in pages 0 and 1 of a tree, `That is a red` in pages 0 and 2, inserted in this order. Then "
    "`That is a blue` is looked for. Two pages are wanted. Which go, in which order?",
    why="`a red` has not been used for the longest time. Page 0 cannot go yet, so `a blue` follows.",
    mistakes={
        "most-recently-used-first": "What has just been found is what will be wanted next.",
        "inner-edges-too": "Without `That is`, nobody finds `a blue` any more.",
        "one-round": "Two are wanted, and after the first one there is another leaf.",
    },
)
def who_goes(evict: Any) -> str:
    from tiny_llm_solution.paged.pool import PagePool
    from tiny_llm_solution.prefix.tree import RadixTree

    pool = PagePool(9)
    tree = RadixTree(pool, 2)
    pages = pool.take(3)
    tree.insert([1, 2, 3, 4], pages[:2])
    tree.insert([1, 2, 3, 5], [pages[0], pages[2]])
    pool.drop(pages)
    tree.match([1, 2, 3, 4])
    return ", then ".join(map(str, evict(tree, 2))) or "none"


@quiz.question(
    "3.5.3",
    "A page has two tokens. A request with the prompt 1 2 3 4 has been served. The same prompt comes again. How many "
    "of its tokens are found?",
    why="Two. The last token is not looked for, and what is left of its page is no whole one.",
    mistakes={
        "all-tokens-looked-for": "Then nothing would be left to read, and there would be no logits.",
        "pages-for-tokens": "One page is found, and it holds two tokens.",
        "nothing-kept-at-the-end": "The pages outlive the request: the tree holds them.",
    },
)
def tokens_found(memory: Any) -> str:
    from tiny_llm_solution.serving.request import Request

    remembering = memory(SimpleNamespace(page=2, pages=9))
    for _ in range(2):
        request = Request([1, 2, 3, 4], 1)
        remembering.begin(request)
        found = request.read
        request.read = 4
        remembering.release(request)
    return str(found)


@quiz.measured(
    "The shared part of a prompt becomes eight times as long. Which of these numbers of our own run grows least?",
    right="with cache: ms",
    why="The tokens behind the shared part are as many as before. Only their attention has more to look at.",
    mistakes={
        "all read: ms": "Every token of the shared part is read again: it grows as the prompt does, and faster.",
        "times as fast": "It grows nearly as the prompt does, since what is left to read stays the same.",
    },
)
def stays(record: Record, column: str) -> str:
    return column if all(column in cells for cells in record.values()) else ""
