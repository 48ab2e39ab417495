"""The quiz of week 2, day 6."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "2.6.1",
    "A row has two groups of 32 weights, or eight words. The first word of each group is `0x21`, and the other "
    "words are 0. The scales are 1 and 10, and the biases are 5 and 0. In each group, x is 1 and 2, followed by zeros. "
    "What is y?",
    why="In each group, the q times x add up to 5. Multiplied by the scales, these sums are 5 and 50. The first "
    "bias adds 5 · 3.",
    mistakes={
        "one-group-for-all-lanes": "Lanes 4 to 7 have words of the second group, with its own scale and bias.",
        "bias-once-a-word": "The bias is multiplied by the sum of x, which is 3 in the first word and 0 in each of the "
        "next three words.",
        "digits-from-the-top": "The first weight of a word is its lowest digit, here 1.",
    },
)
def two_groups(matvec: Any) -> str:
    x = mx.array(([1.0, 2.0] + [0.0] * 30) * 2)
    words = mx.array([([0x21] + [0] * 3) * 2], mx.uint32)
    return numbers(matvec(x, words, mx.array([[1.0, 10.0]]), mx.array([[5.0, 0.0]]), 32))


@quiz.question(
    "2.6.3",
    "A token's 64 inputs and the weights of one row are all 1. What does `quantized_matrices` return?",
    why="It sums 64 products of 1, in two iterations of four matrix products each.",
    mistakes={
        "last-inputs-alone": "simdgroup_multiply replaces the sum, and simdgroup_multiply_accumulate adds to it.",
        "every-second-matrix": "A matrix product sums over 8 inputs, so 32 inputs take four products.",
    },
)
def ones(matrices: Any) -> str:
    words = mx.full((1, 8), 0x11111111, mx.uint32)
    return numbers(matrices(mx.ones((1, 64)), words, mx.ones((1, 1)), mx.zeros((1, 1)), 64))


@quiz.question(
    "2.6.4",
    "A token's 768 inputs and the weights of one row are all 1. Which two values does `split_products` return for "
    "two parts?",
    why="768 inputs are three blocks. The first part gets two blocks, 512 inputs, and the second gets the last 256.",
    mistakes={
        "parts-rounded-down": "With rounding down, each part has one block, and the third block is lost.",
        "every-part-does-all": "If every part summed over all inputs, the parts would add up to 1,536.",
        "every-part-from-the-first": "The second part starts where the first part ends.",
        "every-part-to-the-last": "The first part ends where the second part starts.",
    },
)
def two_parts(split: Any) -> str:
    words = mx.full((1, 96), 0x11111111, mx.uint32)
    given = mx.ones((1, 768)), words, mx.ones((1, 12)), mx.zeros((1, 12))
    return " and ".join(numbers(split(*given, 64, 2)[part]) for part in range(2))


@quiz.measured(
    "In our own run, the tiles move about as many bytes in all for one token as for 32. Why?",
    right="A tile always loads 32 rows of x, whether there are 32 tokens or one.",
    why="For one token, all of these rows are the same one. The weights are loaded once per tile in either case.",
    mistakes={
        "It loads the weights again for each token.": "Then 32 tokens would take about 32 times as many bytes. A tile "
        "loads the weights once for all of its rows.",
        "Its threads access the same bank.": "Bank conflicts are in threadgroup memory, and `KiB per token` counts the "
        "traffic of device memory.",
        "It writes the unpacked weights to memory.": "It unpacks them into threadgroup memory, whose traffic is not "
        "counted here.",
    },
)
def as_many_in_all(record: Record, cause: str) -> str:
    one, many = (n * float(record[f"tiles, {n} token{'s' * (n > 1)}"]["KiB per token"]) for n in (1, 32))
    return cause if one < many < 1.05 * one else ""
