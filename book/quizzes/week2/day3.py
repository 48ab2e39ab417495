"""The quiz of week 2, day 3."""

from typing import Any

import mlx.core as mx
import numpy as np
from tests.week2.packed import TableModel

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "2.3.1",
    "The integers 1 to 8 are packed, 4 bits each. What is the word, in hexadecimal?",
    why="The first integer is in the lowest bits, which are the last hexadecimal digit.",
    mistakes={
        "first-is-highest": "The first integer belongs in the lowest bits, so that a right shift by 4 i bits yields "
        "integer i.",
        "bytes-as-written": "In memory, the word's bytes read 12 34 56 78, but the first integer of a byte belongs in "
        "the low half.",
        "one-place-short": "Shift integer i by 4 i bits, not by 3 i.",
        "largest-only": "A 32-bit word holds all eight integers.",
    },
)
def word(pack: Any) -> str:
    return f"`0x{np.array(pack(mx.arange(1, 9), 4)).item():08x}`"


@quiz.question(
    "2.3.3",
    "A group has weights from -0.6 to 0.35, and is quantized to 4 bits. What are its scale and bias?",
    why="-0.6 is farther from 0 than 0.35 is, so it is the bias. With a step of 0.95 / 15, 0 is 9.47 steps away from "
    "the bias. This is rounded to 9 steps, and 0.6 / 9 is 0.0667.",
    mistakes={
        "always-from-max": "0.35 is closer to 0 than -0.6 is, so this group starts at -0.6.",
        "sixteen-steps": "Sixteen levels have fifteen steps between them.",
        "zero-is-no-step": "With a scale of 0.95 / 15, 0 is 9.47 steps away, between two levels.",
    },
)
def scale_and_bias(quantize: Any) -> str:
    w = mx.array([[-0.6, 0.35] + [0.0] * 30])
    _, scales, biases = quantize(w, 32, 4)
    return f"{numbers(scales, 4)} and {numbers(biases, 2)}"


@quiz.question(
    "2.3.8",
    "A model with a vocabulary of four predicts all tokens with equal probability. It scores two texts, which have "
    "four tokens and two tokens. What is its perplexity?",
    why="Each loss is log 4, so their mean is log 4, and exp of the mean is 4.",
    mistakes={
        "exp-left-out": "The mean loss is log 4, and its exponential is 4.",
        "two-to-the-loss": "2 to the power of 1.39 is 2.61, but e to the power of 1.39 is 4.",
        "logits-as-losses": "A logit of 0 is not a probability of 1: the four exponentials sum to 4.",
    },
)
def likely(perplexity: Any) -> str:
    return f"{perplexity(TableModel(mx.zeros((4, 4))), [[0, 1, 2, 3], [1, 2]]):.3g}"
