"""The quiz of week 2, day 5."""

import math
from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers
from tiny_llm_course.testkit.kernels import costs

quiz = Quiz()


@quiz.question(
    "2.5.1",
    "`add_scaled` adds two arrays of 2,048 float32 elements, so it runs 512 threads in two threadgroups. How many KiB "
    "does it move, in lines of 64 bytes?",
    why="The two inputs and the output take 8 KiB each, and each line is moved once.",
    mistakes={
        "four-neighbors-a-thread": "32 threads whose elements are 16 bytes apart touch eight lines at once, not two.",
        "every-threadgroup-does-all": "The two threadgroups share the elements: each computes every other block of 256 "
        "elements.",
    },
)
def moved(add_scaled: Any) -> str:
    x = mx.ones((2048,))
    return f"{costs(add_scaled, x, x, 0.5)['moved'] // 1024} KiB"


@quiz.question(
    "2.5.2",
    "A threadgroup of 64 threads, in two SIMD-groups, computes RMSNorm for a row of 256 ones. The weights are 1, and "
    "eps is 0. What is the first element of the output of `rms_norm`?",
    why="Each thread sums four squares, each SIMD-group has a sum of 128, and the row has a sum of 256. The mean "
    "square is 1.",
    mistakes={
        "first-simdgroup's-sum": "simd_sum adds up the 32 threads of one SIMD-group, but the threadgroup has two "
        "SIMD-groups.",
        "no-simd-sum": "Each thread has only its own four squares, so 62 of 64 sums are lost.",
        "sum-for-mean": "The 256 squares have a sum of 256 but a mean of 1.",
    },
)
def row_of_ones(rms_norm: Any) -> str:
    return numbers(rms_norm(mx.ones((256,)), mx.ones((256,)), 0.0)[:1])


@quiz.question(
    "2.5.3",
    "x has two rows of two tokens, each with two heads of one pair, and the offset is 1. By how many radians are the "
    "eight pairs rotated, in memory order?",
    why="The two heads of a token are adjacent and have the same position. Row 1 starts at the offset again.",
    mistakes={
        "no-offset": "The first token is at position 1, and a head's first pair is rotated by 1 radian per position.",
        "rows-go-on": "The second row is another sequence, which also starts at the offset.",
        "heads-for-tokens": "A head is followed by the next head of the same token, not by the next token.",
    },
)
def angles(rope: Any) -> str:
    pairs = rope(mx.array([[[[1.0, 0.0]] * 2] * 2] * 2), 1, 10000.0).reshape(-1, 2)
    return numbers(math.atan2(y, x) % (2 * math.pi) for x, y in pairs.tolist())


@quiz.measured(
    "In our measurement, `rms_norm` moves almost twice the bytes of its inputs and output. Why?",
    right="It reads each row twice, and the weight once per row.",
    why="It reads a row to sum the squares, and again to scale it. Each row's threadgroup also reads the whole weight.",
    mistakes={
        "Its threads access elements that are not adjacent.": "Each access touches two lines, the minimum for 32 "
        "float32 elements.",
        "Its SIMD-groups exchange their totals.": "They do so through threadgroup memory, which `KiB moved` does not "
        "count.",
        "Its threads wait at a barrier.": "Waiting takes time but moves no bytes.",
    },
)
def almost_twice(record: Record, reason: str) -> str:
    cells = record["rms_norm"]
    found = 1.8 < float(cells["KiB moved"]) / float(cells["minimum KiB"]) < 2 and cells["lines per access"] == 2
    return reason if found else ""
