"""The quiz of week 5, day 3."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "5.3.2",
    "Each row of a table is one value. The ids are 2, 0 and 2, and dy is 1, 10 and 100. What is the gradient of the "
    "table's three rows?",
    why="Row 2 was read twice, so its gradient is 1 + 100. Row 1 was not read.",
    mistakes={
        "last-one-wins": "Row 2 was read first and last, so both gradients count.",
        "averaged": "Moving row 2 has both effects at once, not their mean.",
    },
)
def three_rows(program: Any) -> str:
    return numbers(program(mx.array([2, 0, 2]), mx.array([[1.0], [10.0], [100.0]]), 3))


@quiz.question(
    "5.3.3",
    "x is (3, 4), the weight is (1, 1) and eps is 0. The gradient of RMSNorm's output is (3, 4), parallel to x. What "
    "is dx?",
    why="A step along x changes only its length, and the output does not depend on that.",
    mistakes={
        "scale-held-constant": "If x grows, the scale falls, and the two effects cancel, so dx is 0.",
        "mean-of-dn": "dx has no component along x. It may have one along the vector of ones.",
        "sum-for-the-mean": "The mean of squares has a factor of 1/E, and so does its derivative.",
    },
)
def parallel(program: Any) -> str:
    dx, _ = program(mx.array([3.0, 4.0]), mx.ones(2), 0.0, mx.array([3.0, 4.0]))
    return numbers(mx.where(mx.abs(dx) < 1e-5, 0.0, dx))


@quiz.question(
    "5.3.6",
    "A matrix starts at 1 and its first gradient is 0.001. The learning rate is 0.1, and there is no weight decay. "
    "What is its value after the first step of AdamW?",
    why="After bias correction, m is the gradient and the root of v is its magnitude. Their ratio is 1, whatever the "
    "magnitude, so the step is the learning rate.",
    mistakes={
        "no-bias-correction": "m is 0.1 times the gradient and the root of v is 0.03 times, so the step is longer.",
        "only-m-corrected": "v also starts at zero, so its square root is 0.03 times the gradient's magnitude.",
        "no-root": "v is the square of the gradient, 0.000001, so a small gradient makes a huge step.",
    },
)
def first_step(adamw: Any) -> str:
    optimizer, params = adamw(0.1, weight_decay=0.0), {"w": mx.ones((1, 1))}
    params, _ = optimizer.update(params, {"w": mx.full((1, 1), 0.001)}, optimizer.init(params))
    return numbers(mx.round(params["w"], 2))


@quiz.measured(
    "In our run, weight decay in the gradient ends with the highest loss of the three mistakes. Why does it harm?",
    right="The decay is divided by the root of v, too.",
    why="So weights with small gradients are pulled toward zero as fast as the gradient moves them.",
    mistakes={
        "The decay makes the first steps too long.": "The missing bias correction does that, and at this learning "
        "rate, it does no harm.",
        "The decay is applied twice.": "It is applied once, but before the division instead of after it.",
        "The decay is scaled by the learning rate.": "So it is in AdamW, where it does no harm.",
    },
)
def worst_at_the_end(record: Record, cause: str) -> str:
    *_, last = record.values()
    worst = max((name for name in last if name != "step"), key=lambda name: last[name])
    return cause if worst == "decay in the gradient" else ""
