"""The quiz of week 3, day 6."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "3.6.1",
    "The target gives three tokens 0.3, 0.2 and 0.5, the draft 0.2, 0.5 and 0.3. Token 1 was drafted. The numbers are "
    "0.5 and 0.4, and behind token 1 the target would say 0.1, 0.1, 0.8. How many tokens stand, and which one is next?",
    why="0.5 is not below 0.2 / 0.5 = 0.4, so token 1 is refused. Left over are 0.1, 0 and 0.2, that is 1/3, 0 and "
    "2/3, and 0.4 falls to token 2.",
    mistakes={
        "ratio-upside-down": "That is q / p, by which the token would always stand.",
        "target-row-after-a-refusal": "Token 1 has had its chance. The target's row would give it a second one.",
    },
)
def stands_and_next(accept: Any) -> str:
    target, draft = mx.array([[0.3, 0.2, 0.5], [0.1, 0.1, 0.8]]), mx.array([[0.2, 0.5, 0.3]])
    stands, token = accept(target, draft, [1], [0.5, 0.4])
    return f"{stands}, then token {token}"


@quiz.question(
    "3.6.2",
    "The text is 5 1 7 8 2 5 1 9 3 4 1 6 0 5 1, and two tokens are wanted. What does lookup propose?",
    why="The last three tokens have not stood before, the last two have: twice. The second time, 9 and 3 followed.",
    mistakes={
        "first-place": "Of several places, the latest one counts.",
        "shortest-first": "There a single token agrees. At another place two do.",
        "run-proposed-again": "These stand at the end already.",
        "one-token-left-out": "What follows begins directly behind the run.",
    },
)
def proposed(lookup: Any) -> str:
    return " ".join(map(str, lookup([5, 1, 7, 8, 2, 5, 1, 9, 3, 4, 1, 6, 0, 5, 1], 2)))


@quiz.question(
    "3.6.4",
    "Three requests write, count is 4 and the budget 8. How many tokens do their chunks have?",
    why="Three tokens are their own. Of the five that are left the first request gets four, the second one.",
    mistakes={
        "budget-left-aside": "That would be 15 tokens, and the budget is 8.",
        "own-tokens-not-counted": "Eight drafted tokens, and three of their own besides.",
        "last-chunk-first": "The budget is shared out from the first chunk on.",
    },
)
def chunk_sizes(speculation: Any) -> str:
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.speculative.drafts import Draft

    class Ones:
        def keep(self, running: Any) -> None:
            """Nobody is remembered."""

        def draft(self, requests: Any, counts: Any) -> list[Draft]:
            return [Draft([1] * count) for count in counts]

    requests = [Request([1, 2], 50, output=[3], read=2) for _ in range(3)]
    return ", ".join(str(len(chunk.tokens)) for chunk in speculation(Ones(), 4).plan(requests, 8))


@quiz.measured(
    "In our own run, which of these gained most by drafts?",
    right="1 x song, n-grams",
    why="The text repeats itself, so that drafts cost nothing and nearly all stand; and one request alone leaves room.",
    mistakes={
        "8 x song, n-grams": "Most drafted tokens stand. But eight requests fill the step already, and each row costs.",
        "1 x story, draft model": "More tokens a step, but the small model takes its time for each of them.",
        "1 x story, n-grams": "A story seldom says the same thing twice.",
    },
)
def gained(record: Record, row: str) -> str:
    return row if row in record else ""
