"""The quiz of week 3, day 4."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


def _pool(*pages: list[float]) -> mx.array:
    """Values of one head with one feature, from page 0 on."""
    return mx.array(pages, mx.float32)[:, None, :, None]


@quiz.question(
    "3.4.1",
    "Pages of two: page 0 contains 1 and 2, page 1 contains 3 and 4, page 2 contains 5 and 6. Three tokens, the "
    "block table [2, 0], all scores 0. What is the last token's output?",
    why="Its tokens are 5, 6 and the first of page 0, 1. The mean is 4.",
    mistakes={
        "table-ignored": "The request's first page is page 2 of the pool, not page 0.",
        "pages-sorted": "The block table is in sequence order: the second page, with one token, is page 0.",
        "full-pages-only": "The third token is in page 0, which is not full.",
    },
)
def through_a_table(attend: Any) -> str:
    return numbers(attend(mx.zeros((1, 1, 1)), mx.ones((3, 1, 2, 1)), _pool([1, 2], [3, 4], [5, 6]), [2, 0], 3))


@quiz.question(
    "3.4.3",
    "Three tokens in pages of two, the block table [2, 0]. Query head 1 uses the second of two key-value heads, "
    "whose values are 10 times the first one's. Page 0 contains 1 and 2 of the first, page 1 contains 3 and 4, page "
    "2 contains 5 and 6. All scores are 0. What is query head 1's output for the last token?",
    why="The second head's 50, 60 and 10: their mean is 40.",
    mistakes={
        "head-0-of-the-page": "Those are the first head's numbers. The second one's follow them in the same page.",
        "table-ignored": "The request's first page is page 2 of the pool, not page 0.",
        "not-itself": "The last token sees itself: 10 counts too.",
    },
)
def second_head(attend: Any) -> str:
    values = mx.concatenate([factor * _pool([1, 2], [3, 4], [5, 6]) for factor in (1, 10)], axis=1)
    attended = attend(mx.zeros((1, 2, 1)), mx.ones(values.shape), values, [2, 0], 3, 1.0)
    return numbers(attended[0, 1])


@quiz.measured(
    "Of the bytes of keys and values that our own run moves for one token, which program moves most?",
    right="decode, gathered first",
    why="It reads them from the pages, writes them to one array, and reads them again: three times.",
    mistakes={
        "decode, pages of 16": "Each page is read in place, once.",
        "decode, pages of 64, in Python": "It is slow, but it reads each page once: Python is what costs.",
        "decode, contiguous": "Each key and value once: the minimum for attention.",
    },
)
def moves_most(record: Record, program: str) -> str:
    return program if program in record else ""
