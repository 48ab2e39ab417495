"""The quiz of week 1, day 4."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "1.4.1",
    "RMSNorm of `3, 4, 0, 0`, with the weight `1, 2, 3, 4` and no eps. What is the output?",
    why="The mean square is 25/4 and its root 2.5. Divided: 1.2, 1.6, 0, 0. Then the weight.",
    mistakes={
        "sum-of-squares": "The root of the sum is 5: without the division by 4, wider vectors would come out smaller.",
        "mean-subtracted": "RMSNorm keeps what all features have in common; its two zeros stay zeros.",
        "weight-before-the-norm": "The weight has then changed the mean square, which should be that of x.",
    },
)
def three_four(norm: Any) -> str:
    return numbers(norm(4, mx.array([1.0, 2.0, 3.0, 4.0]), 0.0)(mx.array([3.0, 4.0, 0.0, 0.0])))


@quiz.question(
    "1.4.1",
    "An eps far larger than any model's: `3, 3` is normalised with eps = 16 and a weight of ones. What is the output?",
    why="The mean square is 9, 9 + 16 is 25, its root 5, and 3 / 5 is 0.6.",
    mistakes={
        "eps-outside-the-root": "3 was divided by 3 + 16: eps belongs to the square, under the root.",
        "eps-left-out": "3 / 3 looks good, until a vector is all zeros.",
    },
)
def large_eps(norm: Any) -> str:
    return numbers(norm(2, mx.ones(2), 16.0)(mx.array([3.0, 3.0])))


@quiz.question(
    "1.4.3",
    "An MLP with E = I = 1: `w_gate` is 2, `w_up` is 3, `w_down` is 1, and x is 1. What is the output? (sigmoid(2) "
    "is 0.881, sigmoid(3) is 0.953.)",
    why="The gate is silu(2) = 2 · 0.881 = 1.762, and it scales up's 3: 5.28.",
    mistakes={
        "gate-and-up-swapped": "silu(3) · 2: the two projections have the same shape, so only the numbers tell.",
        "no-silu": "2 · 3: two matrix products without an activation between them.",
        "sigmoid-gate": "0.881 · 3: silu multiplies its sigmoid by x once more.",
    },
)
def one_number(mlp: Any) -> str:
    gate, up, down = (mx.array([[number]]) for number in (2.0, 3.0, 1.0))
    return numbers(mlp(1, 1, gate, up, down)(mx.array([[1.0]])))
