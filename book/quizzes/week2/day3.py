"""The quiz of week 2, day 3."""

from typing import Any

import mlx.core as mx
import numpy as np
from tests.week2.packed import TableModel

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "2.3.1",
    "The numbers 1 to 8 are packed, 4 bits each. What is the word, in hexadecimal?",
    why="1 has the lowest bits, and these are the last digit.",
    mistakes={
        "first-is-highest": "That is how the row reads, but the first number has the lowest bits.",
        "bytes-as-written": "So a dump of the bytes would read. Within each, too, the first number is the lower.",
        "one-place-short": "Neighbours would share a bit: number i moves up by 4 i places.",
        "largest-only": "All eight numbers are in the word.",
    },
)
def word(pack: Any) -> str:
    return f"`0x{np.array(pack(mx.arange(1, 9), 4)).item():08x}`"


@quiz.question(
    "2.3.3",
    "A group has weights from -0.6 to 0.35. It gets 4 bits. Which scale and which bias?",
    why="-0.6 is further from 0, so it is the edge. Steps of 0.95 / 15 lead to 0 in 9.47: so nine, of 0.0667 each.",
    mistakes={
        "always-from-max": "0.35 is the end that is nearer to 0.",
        "sixteen-steps": "Sixteen numbers are fifteen steps apart.",
        "zero-is-no-step": "Then no level is 0: it would lie between two of them.",
    },
)
def scale_and_bias(quantize: Any) -> str:
    w = mx.array([[-0.6, 0.35] + [0.0] * 30])
    _, scales, biases = quantize(w, 32, 4)
    return f"{numbers(scales, 4)} and {numbers(biases, 2)}"


@quiz.question(
    "2.3.8",
    "There are four tokens, all always equally likely to a model. It reads two texts, of four tokens and of two. What "
    "is its perplexity?",
    why="Each loss is log 4, their mean is log 4, and exp of it is 4.",
    mistakes={
        "exp-left-out": "That is the loss itself, log 4.",
        "two-to-the-loss": "The logarithm is the natural one, and 2 to the power of it is something else.",
        "logits-as-losses": "Logits of 0 are no probabilities of 1: their exponentials sum to 4.",
    },
)
def likely(perplexity: Any) -> str:
    return f"{perplexity(TableModel(mx.zeros((4, 4))), [[0, 1, 2, 3], [1, 2]]):.3g}"
