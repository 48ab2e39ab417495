"""The quiz of week 3, day 4."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


def _pool(*pages: list[float]) -> mx.array:
    """Values of one head with one feature, from page 0 on."""
    return mx.array(pages, mx.float32)[:, None, :, None]


@quiz.question(
    "3.4.1",
    "A page has two slots. Page 0 contains the values 1 and 2, page 1 contains 3 and 4, and page 2 contains 5 and 6. A "
    "request has three tokens and the block table [2, 0], and all scores are 0. What is the output for the last token?",
    why="It sees 5 and 6 in page 2, and 1 in the first slot of page 0. Their mean is 4.",
    mistakes={
        "table-ignored": "The request's first page is page 2 of the pool, not page 0.",
        "pages-sorted": "The block table is in sequence order: the request's second page, with one token, is page 0.",
        "full-pages-only": "The third token is in page 0, of which the request fills one slot.",
    },
)
def through_a_table(attend: Any) -> str:
    return numbers(attend(mx.zeros((1, 1, 1)), mx.ones((3, 1, 2, 1)), _pool([1, 2], [3, 4], [5, 6]), [2, 0], 3))


@quiz.question(
    "3.4.3",
    "A request has three tokens in pages of two, and the block table [2, 0]. The values of the first key-value head "
    "are 1 and 2 in page 0, 3 and 4 in page 1, and 5 and 6 in page 2. The values of the second key-value head are 10 "
    "times as large. Query head 1 uses the second key-value head, and all scores are 0. What is the output of query "
    "head 1 for the last token?",
    why="Query head 1 sees the values 50, 60 and 10 of the second key-value head, and their mean is 40.",
    mistakes={
        "head-0-of-the-page": "Those are the values of the first head. The values of the second head follow in the "
        "same page.",
        "table-ignored": "The request's first page is page 2 of the pool, not page 0.",
        "not-itself": "The last token sees itself, so the value 10 must be included.",
    },
)
def second_head(attend: Any) -> str:
    values = mx.concatenate([factor * _pool([1, 2], [3, 4], [5, 6]) for factor in (1, 10)], axis=1)
    attended = attend(mx.zeros((1, 2, 1)), mx.ones(values.shape), values, [2, 0], 3, 1.0)
    return numbers(attended[0, 1])


@quiz.measured(
    "In our own run, which program moves the most bytes of keys and values for one token?",
    right="decode, gathered first",
    why="It reads the keys and values from the pages, writes them to one array, and reads them again, so it moves them "
    "three times.",
    mistakes={
        "decode, pages of 16": "This counts block-table lookups as traffic of keys and values. Each page is read "
        "in place, once.",
        "decode, pages of 64, in Python": "Slower does not mean more traffic. This program reads each page once, but "
        "it loses time in many small operations.",
        "decode, contiguous": "It reads each key and value once, which is the minimum for attention.",
    },
)
def moves_most(record: Record, program: str) -> str:
    return program if program in record else ""
