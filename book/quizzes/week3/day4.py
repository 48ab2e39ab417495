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
    "Why does decoding with the pages gathered first move three times as many bytes of keys and values as reading the "
    "pages in place?",
    right="It reads the pages, writes a contiguous copy, and reads the copy.",
    why="Each key and value is moved three times. Attention itself needs only one read.",
    mistakes={
        "It gathers the pages of all requests.": "It gathers only the pages in this request's block table.",
        "It copies the free slots of the last page.": "Those are less than one page, but the traffic is three times as "
        "large.",
        "It looks up every token in the block table.": "A block table has a few bytes per page, and they do not count "
        "as keys and values.",
    },
)
def three_times(record: Record, reason: str) -> str:
    traffic = [float(record[f"decode, {name}"]["KV traffic: MiB"]) for name in ("gathered first", "pages of 16")]
    return reason if traffic[0] == 3 * traffic[1] else ""
