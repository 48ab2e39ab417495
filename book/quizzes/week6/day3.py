"""The quiz of week 6, day 3."""

from typing import Any

import mlx.core as mx
from tests.week6.stages import micro_batches, one_f_one_b

from tiny_llm_course.dev.book.quizzes import Quiz
from tiny_llm_course.programs.packages import load_solution
from tiny_llm_course.testkit.ranks import run_ranks

load_solution()
from tiny_llm_solution.pipeline.passes import most_held  # noqa: E402

quiz = Quiz()


@quiz.question(
    "6.3.1",
    "A pipeline has four stages and 16 micro-batches. At most how many micro-batches does stage 1, the second stage, "
    "hold?",
    why="A micro-batch passes stages 1, 2 and 3 before its gradient returns, so stage 1 holds 4 - 1 of them.",
    mistakes={
        "all-forward-first": "1F1B runs the first backward pass as soon as there is a gradient.",
        "one-too-many-ahead": "A pair begins with a forward pass, so it adds the third micro-batch.",
        "warm-up-of-the-other-end": "The last stage holds the fewest, because it waits for no other stage.",
    },
)
def held(program: Any) -> str:
    return str(most_held(program(1, 4, 16)))


@quiz.question(
    "6.3.2",
    "A pipeline has two ranks. The first micro-batch has 3 targets and a mean loss of 2.0; the second has 1 target and "
    "a loss of 6.0. Which loss does rank 0 return?",
    why="The mean over all four targets is (3 · 2 + 6) / 4, and all ranks return it.",
    mistakes={
        "mean-of-the-means": "The second micro-batch has a quarter of the targets, not half.",
        "summed": "The shares are 3/4 and 1/4.",
        "loss-on-the-last-rank-alone": "Rank 0 does not compute the loss, but receives it from the last rank.",
    },
)
def loss(program: Any) -> str:
    def rank_of(group: Any) -> Any:
        batches = micro_batches(1, 3, 1)
        return program(_Fixed(group), {"w": mx.zeros(2)}, batches, one_f_one_b(group.rank, 2, 2), group)[0]

    return f"{run_ranks(rank_of, 2)[0][0].item():.1f}"


class _Fixed:
    """A stage whose loss is 2.0 for the first micro-batch and 6.0 for the second."""

    has_copy = False

    def __init__(self, group: Any) -> None:
        self.first, self.last = group.rank == 0, group.rank == 1
        self.losses = iter((2.0, 6.0))

    def activation(self, rows: Any) -> Any:
        return (1,), mx.float32

    def forward(self, params: Any, x: mx.array, rows: Any) -> mx.array:
        return mx.zeros(1)

    def backward(self, params: Any, x: mx.array, rows: Any, dy: mx.array) -> Any:
        return mx.array(next(self.losses)), {"w": mx.zeros(2)}, mx.zeros(1)


@quiz.question(
    "6.3.3",
    "Each of three ranks sends one row to every rank. The row from rank 1 to rank 2 is called r1→r2. What does "
    "`all_to_all` return on rank 0?",
    why="It returns one row from each rank, in rank order, and all of them are for rank 0.",
    mistakes={
        "source-on-the-right": "In the second step, the row from the rank two places to the left arrives.",
        "parts-by-rank": "The first part to be cut off must be the right neighbor's.",
    },
)
def rows(program: Any) -> str:
    def rank_of(group: Any) -> Any:
        block = program(mx.zeros((3, 1)), *[mx.zeros((1, 1, 1))] * 3, 1, True, group)
        parts = [mx.array([[10.0 * group.rank + to]]) for to in range(3)]
        return [part.item() for part in block.all_to_all(parts, [[1, 1, 1]] * 3)]

    return ", ".join(f"r{int(x) // 10}→r{int(x) % 10}" for x in run_ranks(rank_of, 3)[0][0])
