"""The quiz of week 3, day 5."""

from types import SimpleNamespace
from typing import Any

from tiny_llm_course.dev.book.quizzes import Quiz, Record

quiz = Quiz()


@quiz.question(
    "3.5.1",
    "A page holds two tokens. The sequence 1 2 3 4 5 6 is in pages 0, 1 and 2, in one node. Then 1 2 3 4 7 8 is "
    "inserted and 1 2 3 4 5 6 is matched. Which pages are returned?",
    why="The node is split after page 1. Its second part becomes a child of its first part, next to the new node, so "
    "page 2 is still found.",
    mistakes={
        "tail-lost": "The second part belongs to a sequence that is still cached.",
        "whole-edge-or-nothing": "If nodes were never split, only whole sequences could be shared.",
    },
)
def pages_after_a_cut(tree: Any) -> str:
    from tiny_llm_solution.paged.pool import PagePool

    pool = PagePool(9)
    growing = tree(pool, 2)
    growing.insert([1, 2, 3, 4, 5, 6], pool.allocate(3))
    growing.insert([1, 2, 3, 4, 7, 8], pool.allocate(3))
    return ", ".join(map(str, growing.match([1, 2, 3, 4, 5, 6]))) or "none"


@quiz.question(
    "3.5.2",
    "A tree contains `That is a blue` in pages 0 and 1 and `That is a red` in pages 0 and 2, inserted in this order. "
    "Then `That is a blue` is matched. Two pages must be evicted. Which pages are evicted, and in which order?",
    why="`a red` is the least recently used. Page 0 still has a child, so `a blue` is evicted next.",
    mistakes={
        "most-recently-used-first": "The pages that were just matched are the most likely to be needed again.",
        "inner-edges-too": "Without `That is`, `a blue` can never be found.",
        "one-round": "Two pages are needed, and `a blue` can be evicted too.",
    },
)
def who_goes(evict: Any) -> str:
    from tiny_llm_solution.paged.pool import PagePool
    from tiny_llm_solution.prefix.tree import RadixTree

    pool = PagePool(9)
    tree = RadixTree(pool, 2)
    pages = pool.allocate(3)
    tree.insert([1, 2, 3, 4], pages[:2])
    tree.insert([1, 2, 3, 5], [pages[0], pages[2]])
    pool.release(pages)
    tree.match([1, 2, 3, 4])
    return ", then ".join(map(str, evict(tree, 2))) or "none"


@quiz.question(
    "3.5.3",
    "A page holds two tokens. A request with the prompt 1 2 3 4 has been served. The same prompt arrives again. How "
    "many of its tokens are found?",
    why="The last token is not looked up, so only the first page, with two tokens, can match.",
    mistakes={
        "all-tokens-looked-for": "The last token must be computed: it yields the logits.",
        "pages-for-tokens": "One page is found, but it holds two tokens.",
        "nothing-kept-at-the-end": "The pages outlive the request: the tree holds them.",
    },
)
def tokens_found(memory: Any) -> str:
    from tiny_llm_solution.serving.request import Request

    remembering = memory(SimpleNamespace(page_size=2, pages=9))
    for _ in range(2):
        request = Request([1, 2, 3, 4], 1)
        remembering.admit(request)
        found = request.num_computed_tokens
        request.num_computed_tokens = 4
        remembering.release(request)
    return str(found)


@quiz.measured(
    "In our own run, the shared prefix becomes eight times as long, and with the cache, TTFT grows by less than half. "
    "Why does it grow at all?",
    right="The request's own 16 tokens attend to more keys.",
    why="Only these tokens are computed, but their attention reads the keys and values of the whole prefix.",
    mistakes={
        "Part of the prefix is computed again.": "The hit rate says otherwise: of 528 tokens, all but the request's "
        "own 16 are found.",
        "The pages of the prefix are copied.": "Nothing is copied: the request's block table lists the cached pages.",
        "The request waits in the queue.": "Each request runs alone, so its TTFT includes no queueing.",
    },
)
def grows_little(record: Record, cause: str) -> str:
    short, long = (record[tokens] for tokens in ("64", "512"))
    growth = float(long["prefix cache: ms"]) / float(short["prefix cache: ms"])
    return cause if 1.2 < growth < 1.5 and round(float(long["hit rate: %"]), 1) == round(100 * 512 / 528, 1) else ""
