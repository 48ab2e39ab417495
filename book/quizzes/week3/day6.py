"""The quiz of week 3, day 6."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "3.6.1",
    "The target gives three tokens 0.3, 0.2 and 0.5, the draft 0.2, 0.5 and 0.3. Token 1 was drafted. The uniform "
    "samples are 0.5 and 0.4, and after token 1 the target would give 0.1, 0.1, 0.8. How many draft tokens are "
    "accepted, and which token is next?",
    why="0.5 is not below 0.2 / 0.5 = 0.4, so token 1 is rejected. The residual is 0.1, 0 and 0.2, normalised 1/3, 0 "
    "and 2/3, and 0.4 selects token 2.",
    mistakes={
        "ratio-upside-down": "That is q / p, with which the token would always be accepted.",
        "target-row-after-a-refusal": "Token 1 has had its chance. The target's row would give it a second one.",
    },
)
def stands_and_next(accept: Any) -> str:
    target, draft = mx.array([[0.3, 0.2, 0.5], [0.1, 0.1, 0.8]]), mx.array([[0.2, 0.5, 0.3]])
    stands, token = accept(target, draft, [1], [0.5, 0.4])
    return f"{stands}, then token {token}"


@quiz.question(
    "3.6.2",
    "The sequence is 5 1 7 8 2 5 1 9 3 4 1 6 0 5 1, and two tokens are requested. What does prompt lookup propose?",
    why="The last three tokens have not occurred before, the last two have: twice. The second time, 9 and 3 followed.",
    mistakes={
        "first-place": "Of several matches, the latest one counts.",
        "shortest-first": "A single token matches there. Elsewhere two do.",
        "run-proposed-again": "These are already the end of the sequence.",
        "one-token-left-out": "The proposal starts directly after the match.",
    },
)
def proposed(lookup: Any) -> str:
    return " ".join(map(str, lookup([5, 1, 7, 8, 2, 5, 1, 9, 3, 4, 1, 6, 0, 5, 1], 2)))


@quiz.question(
    "3.6.4",
    "Three requests are decoding, num_speculative_tokens is 4 and the token budget 8. How many tokens do their "
    "chunks have?",
    why="Three tokens are their own. Of the remaining five the first request gets four, the second one.",
    mistakes={
        "budget-left-aside": "That would be 15 tokens, and the budget is 8.",
        "own-tokens-not-counted": "Eight draft tokens, plus three of their own.",
        "last-chunk-first": "The budget is assigned from the first chunk on.",
    },
)
def chunk_sizes(speculation: Any) -> str:
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.speculative.drafter import Draft

    class Ones:
        def retain(self, running: Any) -> None:
            """Keep no state."""

        def propose(self, requests: Any, counts: Any) -> list[Draft]:
            return [Draft([1] * count) for count in counts]

    requests = [Request([1, 2], 50, output=[3], num_computed_tokens=2) for _ in range(3)]
    return ", ".join(str(len(chunk.tokens)) for chunk in speculation(Ones(), 4).plan(requests, 8))


@quiz.measured(
    "In our own run, which of these gained most from drafts?",
    right="1 x song, n-grams",
    why="The song repeats itself, so drafts cost nothing and nearly all are accepted; and a single request leaves "
    "capacity.",
    mistakes={
        "8 x song, n-grams": "Most draft tokens are accepted. But eight requests already fill the step, and each row "
        "costs.",
        "1 x story, draft model": "More tokens per step, but the small model takes its time for each.",
        "1 x story, n-grams": "A story seldom repeats itself.",
    },
)
def gained(record: Record, row: str) -> str:
    return row if row in record else ""
