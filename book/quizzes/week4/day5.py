"""The quiz of week 4, day 5."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "4.5.1",
    "A token's probabilities for three experts are 0.5, 0.3 and 0.2. It uses two of them, and `normalize` is False. "
    "What are its weights?",
    why="The weights are the probabilities among all three experts. The third expert's share is lost.",
    mistakes={
        "always-normalized": "The two probabilities sum to 0.8, but they are divided by 0.8 only if `normalize` is "
        "True.",
        "least-likely": "The token should use the two largest probabilities, 0.5 and 0.3.",
        "scores-as-weights": "The scores here are logarithms of the probabilities, and a weight is never negative.",
    },
)
def two_of_three(route: Any) -> str:
    _, weights = route(mx.ones(1), mx.log(mx.array([[0.5], [0.3], [0.2]])), 2, False)
    return numbers(sorted(weights.tolist(), reverse=True))


@quiz.question(
    "4.5.2",
    "Experts 0, 1 and 2 multiply by 10, 100 and 1,000. Three tokens, 1, 2 and 3, are routed to experts 2, 0 and 1. "
    "What is the output, in the order of the tokens?",
    why="Expert 2 multiplies token 1 by 1,000, expert 0 multiplies token 2 by 10, and expert 1 multiplies token 3 by "
    "100.",
    mistakes={
        "put-back-by-order": "`order` sorts the rows. Its inverse, `places`, restores their order.",
        "not-put-back": "Sorted by expert, the tokens are in the order 2, 3, 1.",
    },
)
def three_tokens(grouped: Any) -> str:
    groups = grouped(mx.array([[2], [0], [1]]), 3)
    rows = groups.gather(mx.array([[1.0], [2.0], [3.0]]))
    results = groups.scatter(groups.linear(rows, mx.array([10.0, 100.0, 1000.0]).reshape(3, 1, 1)))
    return numbers(results)


@quiz.question(
    "4.5.4",
    "Four tokens are routed to two of four experts each, all of them to experts 0 and 1. What is the load imbalance?",
    why="Each of the two experts has half of the assignments, while an even load would be a quarter.",
    mistakes={
        "imbalance-is-a-share": "The share of the busiest expert is a half, and it must be divided by the even share, "
        "a quarter.",
        "shares-sum-to-k": "All tokens use expert 0, but each token has two assignments, so the expert's share is a "
        "half.",
        "imbalance-of-the-busy": "The load of the two busy experts is even, but the mean also includes the two idle "
        "experts.",
    },
)
def two_do_all(statistics: Any) -> str:
    return numbers(statistics(mx.array([[0, 1]] * 4), mx.full((4, 4), 0.25)).imbalance)


@quiz.measured(
    "As the number of tokens in a step grows, which of these figures from our run stays the same?",
    right="dense: MiB",
    why="A dense MLP reads all of its weights, for one token or many.",
    mistakes={
        "experts: MiB": "This assumes that k experts per token are k experts per step. Other tokens may use other "
        "experts, so this figure grows until all experts are read.",
        "experts: ms": "Only a memory-bound step with the same experts takes the same time. Each token adds FLOPs, "
        "and perhaps another expert to read.",
        "dense: ms": "The bytes stay the same, but the FLOPs grow with the tokens.",
    },
)
def stays_the_same(record: Record, column: str) -> str:
    return column if all(column in cells for cells in record.values()) else ""
