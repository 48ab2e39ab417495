"""The quiz of week 2, day 6."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "2.6.1",
    "A row has two groups of 32 weights, eight words. The first word of each group is `0x21`, the others are 0. The "
    "scales are 1 and 10, the biases 5 and 0. In each group x is 1 and 2, then zeros. What is y?",
    why="The digits give 1 · 1 + 2 · 2 = 5 in each group: 5 and 50. The first bias times 1 + 2 adds 15.",
    mistakes={
        "one-group-for-all-lanes": "Lanes 4 to 7 have words of the second group, with its own scale and bias.",
        "bias-once-a-word": "The bias is multiplied by the sum of x: 3 in the first word, 0 in the next three.",
        "digits-from-the-top": "The first weight of a word is its lowest digit, here 1.",
    },
)
def two_groups(matvec: Any) -> str:
    x = mx.array(([1.0, 2.0] + [0.0] * 30) * 2)
    words = mx.array([([0x21] + [0] * 3) * 2], mx.uint32)
    return numbers(matvec(x, words, mx.array([[1.0, 10.0]]), mx.array([[5.0, 0.0]]), 32))


@quiz.question(
    "2.6.3",
    "One token with 64 inputs of 1, and one row of W with weights of 1. What does `quantized_matrices` return?",
    why="64 products of 1, in two iterations of 32 inputs, four matrices each.",
    mistakes={
        "last-inputs-alone": "simdgroup_multiply replaces the sum; simdgroup_multiply_accumulate adds to it.",
        "every-second-matrix": "A product of matrices sums over 8 inputs, so 32 inputs take four.",
    },
)
def ones(matrices: Any) -> str:
    words = mx.full((1, 8), 0x11111111, mx.uint32)
    return numbers(matrices(mx.ones((1, 64)), words, mx.ones((1, 1)), mx.zeros((1, 1)), 64))


@quiz.question(
    "2.6.4",
    "The same with 768 inputs, in two parts: which two numbers does `split_products` return?",
    why="768 inputs are three blocks. The first part takes two, the second the one left: 512 inputs and 256.",
    mistakes={
        "parts-rounded-down": "Rounded down, a part has one block, and the third is lost.",
        "every-part-does-all": "Then the sum of the parts would be 1,536.",
        "every-part-from-the-first": "The second part starts where the first one ends.",
        "every-part-to-the-last": "The first part ends where the second one starts.",
    },
)
def two_parts(split: Any) -> str:
    words = mx.full((1, 96), 0x11111111, mx.uint32)
    given = mx.ones((1, 768)), words, mx.ones((1, 12)), mx.zeros((1, 12))
    return " and ".join(numbers(split(*given, 64, 2)[part]) for part in range(2))


@quiz.measured(
    "Which of these kernels moved the least for a single token in our own run?",
    right="matvec, 1 token",
    why="It reads each word once, and x once for eight rows of W.",
    mistakes={
        "thread per row, 1 token": "Its threads walk along different rows, so an access touches 32 lines.",
        "tiles, 1 token": "A tile has 32 rows of x, all filled with the single one there is.",
        "matrices, 1 token": "It fills tiles as `quantized_tiles` does, and wastes 31 of 32 rows.",
    },
)
def least_for_one(record: Record, kernel: str) -> str:
    return kernel if record[kernel] else ""
