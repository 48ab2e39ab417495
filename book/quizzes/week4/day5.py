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
    "In our own run, both layers read 12 MiB for 64 tokens and for 128. Why are the experts still faster, and by more "
    "for 128 tokens?",
    right="The dense MLP is compute-bound, and the experts take a sixteenth of its FLOPs.",
    why="The dense MLP's time grows with the tokens. The experts also have overhead, which matters less the more rows "
    "each expert multiplies at once.",
    mistakes={
        "Each token reads only the weights of its own experts.": "Together, the tokens use all 32 experts, so the "
        "bytes are the same for both layers.",
        "The dense MLP reads its weights again for each token.": "It reads them once per step, for one token or many.",
        "With more tokens, the experts' load is less even.": "It becomes more even, and an uneven load costs almost "
        "nothing if one machine computes all rows in turn.",
    },
)
def same_bytes(record: Record, cause: str) -> str:
    some, many = (record[tokens] for tokens in ("64", "128"))
    all_read = {float(row[column]) for row in (some, many) for column in ("experts: MiB", "dense: MiB")} == {12.0}
    return cause if all_read and float(many["speed-up"]) > float(some["speed-up"]) > 1 else ""
