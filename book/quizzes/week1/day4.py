"""The quiz of week 1, day 4."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "1.4.1",
    "What is the RMSNorm of `3, 4, 0, 0`, with the weight `1, 2, 3, 4` and no eps?",
    why="The mean square is 25/4, and its root is 2.5. Dividing gives 1.2, 1.6, 0, 0, and the weight doubles 1.6.",
    mistakes={
        "sum-of-squares": "The root of the sum of squares is 5. Without the division by 4, wider vectors would shrink "
        "more.",
        "mean-subtracted": "RMSNorm does not subtract the mean, so the two zeros stay zeros.",
        "weight-before-the-norm": "The mean square should be computed from x alone, which gives 25/4.",
    },
)
def three_four(norm: Any) -> str:
    return numbers(norm(4, mx.array([1.0, 2.0, 3.0, 4.0]), 0.0)(mx.array([3.0, 4.0, 0.0, 0.0])))


@quiz.question(
    "1.4.1",
    "`3, 3` is normalized with a weight of ones and an unusually large eps, 16. What is the output?",
    why="The mean square is 9, the root of 9 + 16 is 5, and 3 / 5 is 0.6.",
    mistakes={
        "eps-outside-the-root": "3 / (3 + 16) is 0.16, but 3 / sqrt(9 + 16) is 0.6.",
        "eps-left-out": "3 / 3 looks right, but a vector of zeros would be divided by zero.",
    },
)
def large_eps(norm: Any) -> str:
    return numbers(norm(2, mx.ones(2), 16.0)(mx.array([3.0, 3.0])))


@quiz.question(
    "1.4.3",
    "In an MLP with E = I = 1, `w_gate` is 2, `w_up` is 3, `w_down` is 1, and x is 1. What is the output? (sigmoid(2) "
    "is 0.881, and sigmoid(3) is 0.953.)",
    why="The gate is silu(2) = 2 · 0.881 = 1.762. Multiplied by the up projection, which is 3, it gives 5.28.",
    mistakes={
        "gate-and-up-swapped": "That is silu(3) · 2. Both projections have the same shape, so only the values show it.",
        "no-silu": "That is 2 · 3, without the factor 0.881.",
        "sigmoid-gate": "That is 0.881 · 3, but silu multiplies the sigmoid by x.",
    },
)
def one_number(mlp: Any) -> str:
    gate, up, down = (mx.array([[number]]) for number in (2.0, 3.0, 1.0))
    return numbers(mlp(1, 1, gate, up, down)(mx.array([[1.0]])))
