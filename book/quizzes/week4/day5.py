"""The quiz of week 4, day 5."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "4.5.1",
    "A token's probabilities for three experts are 0.5, 0.3 and 0.2. It uses two of them, and `normalize` is False. "
    "What are its weights?",
    why="The probabilities among all three: the third one's share is lost.",
    mistakes={
        "always-normalised": "These sum to one. With `norm_topk_prob` False, they are not divided.",
        "least-likely": "These are the two least likely.",
        "scores-as-weights": "These are the scores, the logarithms. A weight is never negative.",
    },
)
def two_of_three(route: Any) -> str:
    _, weights = route(mx.ones(1), mx.log(mx.array([[0.5], [0.3], [0.2]])), 2, False)
    return numbers(sorted(weights.tolist(), reverse=True))


@quiz.question(
    "4.5.2",
    "Three tokens, 1, 2 and 3, go to the experts 2, 0 and 1, which multiply by 10, 100 and 1,000: expert 0 by 10. "
    "What is the output, in the order of the tokens?",
    why="Token 1 goes to expert 2, which multiplies by 1,000; token 2 to expert 0, token 3 to expert 1.",
    mistakes={
        "put-back-by-order": "The order leads from the tokens to the sorted rows. Its inverse leads back.",
        "not-put-back": "This is the order of the rows while they are sorted by expert.",
    },
)
def three_tokens(grouped: Any) -> str:
    groups = grouped(mx.array([[2], [0], [1]]), 3)
    rows = groups.gather(mx.array([[1.0], [2.0], [3.0]]))
    results = groups.scatter(groups.linear(rows, mx.array([10.0, 100.0, 1000.0]).reshape(3, 1, 1)))
    return numbers(results)


@quiz.question(
    "4.5.4",
    "Four tokens go to two of four experts each: experts 0 and 1, all of them. What is the imbalance?",
    why="Each of the two has half of the assignments, and a quarter would be even.",
    mistakes={
        "imbalance-is-a-share": "This is the share of the busiest. Divided by an even share, it is 2.",
        "shares-sum-to-k": "All tokens use it, but each has two assignments: the share is a half.",
        "imbalance-of-the-busy": "The load of the two busy ones is even. The two idle ones count, too.",
    },
)
def two_do_all(statistics: Any) -> str:
    return numbers(statistics(mx.array([[0, 1]] * 4), mx.full((4, 4), 0.25)).imbalance)


@quiz.measured(
    "The number of tokens in a step grows. Which of these numbers of our own run stays the same?",
    right="dense: MiB",
    why="A dense MLP reads all of its weights, for one token as for many.",
    mistakes={
        "experts: MiB": "Another token may use another expert. It grows until all of them are read.",
        "experts: ms": "Each token adds FLOPs.",
        "dense: ms": "The bytes stay the same, and the FLOPs grow with the tokens.",
    },
)
def stays_the_same(record: Record, column: str) -> str:
    return column if all(column in cells for cells in record.values()) else ""
