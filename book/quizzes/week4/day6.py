"""The quiz of week 4, day 6."""

from typing import Any

import mlx.core as mx
from tests.week1.reference_model import QWEN3

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "4.6.1",
    'A model has nine layers and three sets of weights, in the order "cycle_reversed". Which set does each layer use?',
    why="There are three rounds, and only the last round runs backward.",
    mistakes={
        "every-second-round-reversed": "Here the second of three rounds runs backward, but the third round should.",
        "every-round-but-the-first-reversed": "The second of three rounds should still be `0 1 2`.",
        "never-reversed": "The last round should be `2 1 0`.",
    },
)
def nine_layers(owner: Any) -> str:
    return f"`{' '.join(str(owner(n, 9, 3, 'cycle_reversed')) for n in range(9))}`"


@quiz.question(
    "4.6.2",
    "A model of twelve layers stores all of them. A second, otherwise identical model stores three. Divide the second "
    "model's MACs and cached elements by the first model's. What are the ratios?",
    why="In both models, a token passes through twelve layers, and each layer caches keys and values.",
    mistakes={
        "macs-of-the-stored": "A token passes through twelve layers in both models, so it takes the same number of "
        "MACs.",
        "cached-of-the-stored": "Layers with the same weights process different residual streams, so their keys "
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
    "A table has two tokens and one feature: row 0 is 0, and row 1 is 1. The input is token 0, and the target is token "
    "1. What are the gradients of the two rows?",
    why="x is 0, so both logits are 0, and p - y is 1/2 and -1/2. The head's term is p - y times x, which is 0. The "
    "embedding's term, for row 0, is 1/2 times 0 minus 1/2 times 1.",
    mistakes={
        "head-part-only": "x is 0, so the head's term is 0. But x is itself a row of the table, with its own gradient.",
        "rows-at-the-targets": "Row 0 is the row that was looked up, and row 1 is only the target.",
        "uphill": "A step against the gradient must move row 0 toward row 1.",
    },
)
def two_rows(function: Any) -> str:
    _, gradient = function(mx.array([[0.0], [1.0]]), mx.array([0]), mx.array([1]))
    return numbers(gradient)
