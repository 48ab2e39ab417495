"""The quiz of week 2, day 6."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "2.6.1",
    "A row has two groups of 32 weights, which is eight words. The first word of each group is `0x21`, the others are "
    "0. The scales are 1 and 10, the biases 5 and 0. x is 1 and 2, then zeros, in each of the groups. What is y?",
    why="The digits meet 1 · 1 + 2 · 2 = 5 in each group: 5 and 50. The first group's bias meets 1 + 2: 15 more.",
    mistakes={
        "one-group-for-all-lanes": "Lanes 4 to 7 have words of the second group, with a scale and a bias of their own.",
        "bias-once-a-word": "The bias is multiplied by x: it meets 3 in the first word, and 0 in the three behind it.",
        "digits-from-the-top": "The first weight of a word is its lowest digit, which is 1.",
    },
)
def two_groups(matvec: Any) -> str:
    x = mx.array(([1.0, 2.0] + [0.0] * 30) * 2)
    words = mx.array([([0x21] + [0] * 3) * 2], mx.uint32)
    return numbers(matvec(x, words, mx.array([[1.0, 10.0]]), mx.array([[5.0, 0.0]]), 32))


@quiz.question(
    "2.6.3",
    "One token, whose 64 inputs are 1, and one row of W, in which every weight is 1. What does `quantized_matrices` "
    "give?",
    why="64 products of 1, in two turns of 32 inputs, four matrices each.",
    mistakes={
        "last-inputs-alone": "simdgroup_multiply replaces the sum; simdgroup_multiply_accumulate adds to it.",
        "every-second-matrix": "A product of matrices sums over 8 inputs, so 32 inputs are four of them.",
    },
)
def ones(matrices: Any) -> str:
    words = mx.full((1, 8), 0x11111111, mx.uint32)
    return numbers(matrices(mx.ones((1, 64)), words, mx.ones((1, 1)), mx.zeros((1, 1)), 64))


@quiz.question(
    "2.6.4",
    "The same with 768 inputs, in two parts: `split_products` gives two numbers. Which ones?",
    why="768 inputs are three blocks. Each part has two, until there are no more: 512 inputs and 256.",
    mistakes={
        "parts-rounded-down": "Rounded down, a part has one block, and nobody takes the third.",
        "every-part-does-all": "Then their sum would be 1,536.",
        "every-part-from-the-first": "The second part begins where the first one ends.",
        "every-part-to-the-last": "The first part ends where the second one begins.",
    },
)
def two_parts(split: Any) -> str:
    words = mx.full((1, 96), 0x11111111, mx.uint32)
    given = mx.ones((1, 768)), words, mx.ones((1, 12)), mx.zeros((1, 12))
    return " and ".join(numbers(split(*given, 64, 2)[part]) for part in range(2))


@quiz.measured(
    "A single token comes. Which of these kernels moved least for it in our own run?",
    right="matvec, 1 token",
    why="It reads each word once, and x once for eight rows of W.",
    mistakes={
        "a thread a row, 1 token": "Its threads go along different rows, so that an access touches 32 lines.",
        "tiles, 1 token": "A tile has 32 rows of x, and puts the one there is into all of them.",
        "matrices, 1 token": "It fills tiles just as `quantized_tiles` does, and 31 of 32 rows are for nothing.",
    },
)
def least_for_one(record: Record, kernel: str) -> str:
    return kernel if record[kernel] else ""
