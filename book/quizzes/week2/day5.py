"""The quiz of week 2, day 5."""

import math
from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz, numbers
from tiny_llm_course.testkit.kernels import costs

quiz = Quiz()


@quiz.question(
    "2.5.1",
    "`add_scaled` is given 2,048 numbers in float32, so that it runs on 512 threads in two threadgroups. How many KiB "
    "of memory does it move, in lines of 64 bytes?",
    why="Two inputs and one output of 8 KiB each, and each line of them once.",
    mistakes={
        "four-neighbours-a-thread": "32 threads whose numbers lie 16 bytes apart touch eight lines at once, not two.",
        "every-threadgroup-does-all": "Two threadgroups share the numbers: each takes every other 256 of them.",
    },
)
def moved(add_scaled: Any) -> str:
    x = mx.ones((2048,))
    return f"{costs(add_scaled, x, x, 0.5)['moved'] // 1024} KiB"


@quiz.question(
    "2.5.2",
    "A row of 256 ones has a threadgroup of 64 threads, which is two SIMD-groups. The weights are 1, and eps is 0. "
    "What does `rms_norm` make of the first number?",
    why="The mean of the squares is 1. Each thread has four of them, each SIMD-group 128, and the two sums are added "
    "up.",
    mistakes={
        "first-simdgroup's-sum": "simd_sum adds up the 32 threads of one SIMD-group. The other one has as many.",
        "no-simd-sum": "Each thread has the sum of its own four squares alone, and 62 of 64 would be lost.",
        "sum-for-mean": "256 squares of 1 have a sum of 256, and a mean of 1.",
    },
)
def row_of_ones(rms_norm: Any) -> str:
    return numbers(rms_norm(mx.ones((256,)), mx.ones((256,)), 0.0)[:1])


@quiz.question(
    "2.5.3",
    "Two rows of two tokens, with two heads of one pair each, and an offset of 1. By how many radians are the eight "
    "pairs turned, in the order in which they lie in memory?",
    why="The two heads of a token lie beside each other, and both are at its position. Row 1 begins at the offset "
    "again.",
    mistakes={
        "no-offset": "The first token is at position 1, and the first pair of a head turns by its position.",
        "rows-go-on": "The second row is another text, which begins at the offset, too.",
        "heads-for-tokens": "Beside a head lies the next head of the same token, and not the next token.",
    },
)
def angles(rope: Any) -> str:
    pairs = rope(mx.array([[[[1.0, 0.0]] * 2] * 2] * 2), 1, 10000.0).reshape(-1, 2)
    return numbers(math.atan2(y, x) % (2 * math.pi) for x, y in pairs.tolist())


@quiz.measured(
    "In our own run, which kernel moves many more bytes than its inputs and its output have?",
    right="rms_norm",
    why="It reads each row twice: once for the sum of the squares, and once when the scale is known.",
    mistakes={
        "add_scaled": "It reads both inputs once, and writes once.",
        "rope": "It computes its angles, and reads no table of them.",
        "swiglu": "What is between silu and the product stays in the thread.",
    },
)
def more_than_needed(record: Record, kernel: str) -> str:
    return f"`{kernel}`" if record[kernel] else ""
