"""The quiz of week 4, day 6."""

from typing import Any

import mlx.core as mx
from tests.week1.reference_model import QWEN3

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "4.6.1",
    'Nine layers, three sets of weights, in the order "cycle_reversed". Which set does each layer use?',
    why="Rounds of three, and the last of them backwards.",
    mistakes={
        "every-second-round-reversed": "Only the last round is reversed.",
        "every-round-but-the-first-reversed": "The second round is not the last.",
        "never-reversed": "Nothing is reversed.",
    },
)
def nine_layers(owner: Any) -> str:
    return f"`{' '.join(str(owner(n, 9, 3, 'cycle_reversed')) for n in range(9))}`"


@quiz.question(
    "4.6.2",
    "A model of twelve layers stores all of them; another one, otherwise identical, stores three. What are the "
    "second one's MACs and cached numbers, as shares of the first one's?",
    why="A token passes through twelve layers in both, and each of them caches keys and values.",
    mistakes={
        "macs-of-the-stored": "What is stored once is multiplied as often as it is used.",
        "cached-of-the-stored": "Layers with the same weights process a different residual stream, so their keys "
        "differ.",
    },
)
def three_of_twelve(count: Any) -> str:
    from tiny_llm_solution.config import ModelConfig

    config = ModelConfig.from_dict({**QWEN3, "num_hidden_layers": 12})
    all_, few = count(config, 12), count(config, 3)
    return f"MACs {numbers([few.macs / all_.macs])}, cached {numbers([few.cached / all_.cached])}"


@quiz.question(
    "4.6.4",
    "A table of two tokens and one feature: row 0 is 0, row 1 is 1. The input is token 0, the target token 1. What "
    "is the gradient of the two rows?",
    why="x is 0, so both scores are 0, and the errors are 1/2 and -1/2. As the head, each row gets error times x: "
    "nothing. As the row that was looked up, row 0 gets 1/2 times 0 minus 1/2 times 1.",
    mistakes={
        "head-part-only": "x is 0, and so is this part. But x itself is a row of the table.",
        "rows-at-the-targets": "The row that was looked up is row 0.",
        "uphill": "A step against the gradient must move row 0 towards row 1.",
    },
)
def two_rows(function: Any) -> str:
    _, gradient = function(mx.array([[0.0], [1.0]]), mx.array([0]), mx.array([1]))
    return numbers(gradient)
