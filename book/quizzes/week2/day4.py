"""The quiz of week 2, day 4."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "2.4.1",
    "A row has one group of 32 weights. Its first word is `0x21`, and the other words are 0. The scale is 1, and "
    "the bias is 10. x is 1, 2, 3 and then zeros. What is y?",
    why="The first two weights are 1 + 10 and 2 + 10, and all other weights are 10, so y is 11 · 1 + 12 · 2 + 10 · 3.",
    mistakes={
        "highest-digit-first": "The first weight is in the lowest four bits of the word, which are 1 here.",
        "no-bias": "A weight with q = 0 equals the bias, not 0.",
        "bias-once-a-group": "Every weight includes the bias, so the bias adds 10 · 6 to y, not 10.",
        "eight-bits-kept": "Without the mask, the first weight is 0x21, which includes the 2 of its neighbor.",
    },
)
def one_row(matvec: Any) -> str:
    x = mx.array([1.0, 2.0, 3.0] + [0.0] * 29)
    return numbers(matvec(x, mx.array([[0x21, 0, 0, 0]], mx.uint32), mx.ones((1, 1)), mx.full((1, 1), 10.0), 32))


@quiz.question(
    "2.4.2",
    "A row has two groups of 64 weights. Every q is 1, the scales are 1 and 10, and the biases are 5 and 0. x is 1 at "
    "the first weight of each group and 0 elsewhere. What is y?",
    why="With the scales, the two groups add 1 · 1 and 10 · 1. The first group's bias adds 5 · 1.",
    mistakes={
        "no-scales": "Without its scale, the second group adds 1 instead of 10.",
        "no-biases": "The first group's bias, multiplied by its sum of x, adds 5.",
        "x-of-the-first-digit": "Each of the eight weights of a word has its own element of x. In the first word of a "
        "group, seven of these elements are 0.",
    },
)
def two_groups(matvec: Any) -> str:
    x = mx.array(([1.0] + [0.0] * 63) * 2)
    words = mx.full((1, 16), 0x11111111, mx.uint32)
    return numbers(matvec(x, words, mx.array([[1.0, 10.0]]), mx.array([[5.0, 0.0]]), 64))


@quiz.measured(
    "In our own run, a matmul of 64 tokens takes less time per token than it takes to read the matrix. How can that "
    "be?",
    right="It loads each weight once for all 64 tokens.",
    why="The bound holds for a call, which reads the whole matrix, not for a token: here, 64 tokens share each weight.",
    mistakes={
        "The weights stay in the cache between calls.": "All matrices together exceed most caches, so each call reads "
        "its matrix from memory.",
        "It reads fewer bits of each weight.": "Every kernel reads the same packed words.",
        "It unpacks the weights faster.": "Unpacking is work in addition to reading, so no speed of it could beat the "
        "bound.",
    },
)
def below_the_bound(record: Record, cause: str) -> str:
    matmul, read = (float(record[row]["ms per token"]) for row in ("matmul, 64 tokens", "memory read"))
    return cause if matmul < read else ""
