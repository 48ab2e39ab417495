"""The quiz of week 5, day 5."""

from typing import Any

import mlx.core as mx
from tests.week1.tokenizing import STOP
from tests.week5.chats import IGNORED, TOKENIZER, chatml, conversation

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "5.5.1",
    "A user says *Hi!*, and the assistant answers *dog*, which is three tokens here: d, o and g. How many "
    "positions of the conversation count in the loss?",
    why="The model must learn four tokens: the three of the word, and the end token.",
    mistakes={
        "end-not-learned": "A model that never learns the end token does not stop.",
        "what-follows-the-end-learned": "The server stops at the end token, so the model never has to write the line "
        "break after it.",
        "prompt-learned": "The model is given the prompt, so it never has to write it.",
    },
)
def a_short_answer(program: Any) -> str:
    _, targets = program(conversation("Hi!", "dog"), TOKENIZER, chatml, STOP)
    return str(sum(target != IGNORED for target in targets))


@quiz.question(
    "5.5.2",
    "An adapter has r = 4 and alpha = 8. A layer's x A.T B.T is 1. What does the adapter add to the output?",
    why="The update is multiplied by alpha / r.",
    mistakes={
        "not-divided-by-the-rank": "The update is then 8, four times too large.",
        "scale-inverted": "4 / 8 is 0.5, but 8 / 4 is 2.",
        "not-scaled-when-called": "Without the factor 2, the call adds only x A.T B.T, which is 1.",
        "root-of-the-rank": "8 / sqrt(4) is 4, but 8 / 4 is 2.",
    },
)
def a_scaled_update(layer: Any) -> str:
    a, b = mx.array([[1.0], [0.0], [0.0], [0.0]]), mx.array([[1.0, 0.0, 0.0, 0.0]])
    return numbers(layer(mx.zeros((1, 1)), a, b, 8.0)(mx.ones((1, 1))))


@quiz.question(
    "5.5.5",
    "Adapters 0 and 1 multiply by 10 and by 100. The rows 1, 2 and 3 have the owners 1, -1 and 0. What are their "
    "updates?",
    why="Row 1 is multiplied by 100, row 2 has no adapter, and row 3 is multiplied by 10.",
    mistakes={
        "none-is-the-last": "Row 2 has no adapter, so its update should be 0, not 200.",
        "left-sorted": "Sorted by owner, the row without an adapter comes first, then row 3, then row 1.",
        "first-b-for-all": "The B of adapter 1 is 100, so row 1 should get 100.",
    },
)
def three_rows(program: Any) -> str:
    a, b = [mx.ones((1, 1))] * 2, [mx.array([[10.0]]), mx.array([[100.0]])]
    return numbers(program(mx.array([[1.0], [2.0], [3.0]]), [1, -1, 0], a, b, [1.0, 1.0])[:, 0])
