"""The quiz of week 4, day 5."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "4.5.1",
    "A token's probabilities of three experts are 0.5, 0.3 and 0.2. It goes to two of them, and `normalize` is False. "
    "What are its weights?",
    why="They are what they are among all three: what the third would have had is lost.",
    mistakes={
        "always-normalised": "These sum to one. With `norm_topk_prob` False, nobody divides.",
        "least-likely": "These are the two that are least likely.",
        "scores-as-weights": "These are the scores, the logarithms. A weight is never below zero.",
    },
)
def two_of_three(route: Any) -> str:
    _, weights = route(mx.ones(1), mx.log(mx.array([[0.5], [0.3], [0.2]])), 2, False)
    return numbers(sorted(weights.tolist(), reverse=True))


@quiz.question(
    "4.5.2",
    "Three tokens, 1, 2 and 3, go to the experts 2, 0 and 1, which multiply by 10, 100 and 1,000: expert 0 by 10. What "
    "comes out, in the order of the tokens?",
    why="Token 1 goes to expert 2, which multiplies by 1,000; token 2 to expert 0, token 3 to expert 1.",
    mistakes={
        "put-back-by-order": "The order leads from the tokens to the sorted rows. Its inverse leads back.",
        "not-put-back": "This is how the rows stand while they are sorted by expert.",
    },
)
def three_tokens(grouped: Any) -> str:
    groups = grouped(mx.array([[2], [0], [1]]), 3)
    rows = groups.gather(mx.array([[1.0], [2.0], [3.0]]))
    results = groups.scatter(groups.linear(rows, mx.array([10.0, 100.0, 1000.0]).reshape(3, 1, 1)))
    return numbers(results)


@quiz.question(
    "4.5.4",
    "Four tokens go to two of four experts each: experts 0 and 1, all of them. What is the overload?",
    why="Each of the two has half of all places, and a quarter would be even.",
    mistakes={
        "overload-is-a-share": "This is the share of the busiest. Twice as much as an even one is 2.",
        "shares-sum-to-k": "All tokens go there, but they take two places each: the share is a half.",
        "overload-of-the-busy": "Among the two busy ones all is even. The two idle ones count, too.",
    },
)
def two_do_all(statistics: Any) -> str:
    return numbers(statistics(mx.array([[0, 1]] * 4), mx.full((4, 4), 0.25)).overload)


@quiz.measured(
    "More and more tokens come at once. Which of these numbers of our own run stays the same?",
    right="dense: MiB",
    why="A dense MLP reads all of its weights, for one token as for many.",
    mistakes={
        "experts: MiB": "Another token may need another expert. It grows until all of them are read.",
        "experts: ms": "Each token is arithmetic, whoever does it.",
        "dense: ms": "The bytes stay the same, and arithmetic grows with the tokens.",
    },
)
def stays_the_same(record: Record, column: str) -> str:
    return column if all(column in cells for cells in record.values()) else ""
