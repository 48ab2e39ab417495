"""The quiz of week 2, day 7."""

import math
from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "2.7.1",
    "The scores of a row are 0 and ln 2, in two blocks. Their values are 3 and 9. What is the result?",
    why="The weights are 1/3 and 2/3: 1 + 6. Relative to ln 2 they are 1/2 and 1, and their total is 1.5.",
    mistakes={
        "total-not-rescaled": "The first weight is 1 relative to 0, and 1/2 relative to ln 2: the total shrinks, too.",
        "values-not-rescaled": "3 times 1 was right relative to 0. Relative to ln 2, the first value counts half.",
        "never-rescaled": "Relative to ln 2 the first weight is 1/2: it counts less in both sums.",
        "last-block-only": "The first key has a third of the weight.",
    },
)
def two_blocks(softmax: Any) -> str:
    running = softmax(1, 1)
    for score, value in ((0.0, 3.0), (math.log(2), 9.0)):
        running.add(mx.array([[score]]), mx.array([[value]]))
    return numbers(running.result())


@quiz.question(
    "2.7.2",
    "Six tokens in blocks of two, causal. Every score is 0, and the values are 1 to 6. What do the fifth and the sixth "
    "query get?",
    why="The fifth sees 1 to 5 and the sixth 1 to 6: averages of 3 and 3.5. Both are in the third block.",
    mistakes={
        "nothing-hidden-within-a-block": "A part of the third block of keys is hidden: 6, from the fifth query.",
        "keys-up-to-the-first-query": "The sixth query sees its own key, which the first of its block does not.",
        "queries-counted-from-the-block": "The third block's first query is not query 0, but query 4.",
        "not-itself": "A query sees its own key.",
    },
)
def third_block(flash: Any) -> str:
    values = mx.arange(1, 7).astype(mx.float32).reshape(1, 6, 1)
    attended = flash(mx.zeros((1, 6, 1)), mx.ones((1, 6, 1)), values, mask="causal", block=2)
    return " and ".join(numbers(attended[0, i]) for i in (4, 5))


@quiz.question(
    "2.7.4",
    "One query sees three keys, so that 29 of 32 lanes have none. Every score is 0, and the values are 3, 6 and 9. "
    "What comes out?",
    why="Three weights of 1, and 29 of exp(-inf), which is 0: 18 / 3.",
    mistakes={
        "total-of-a-lane": "Lane 0 has the only feature, and one key. The total is of all three.",
        "hidden-is-zero": "A lane without a key has a score of -inf. With 0, its weight would be 1, as that of a key.",
        "largest-of-a-lane": "The largest score is that of all lanes: a lane without a key would have -inf, and "
        "-inf - -inf is NaN.",
    },
)
def three_keys(flash: Any) -> str:
    values = mx.array([3.0, 6.0, 9.0]).reshape(1, 3, 1)
    return numbers(flash(mx.zeros((1, 1, 1)), mx.ones((1, 3, 1)), values))


@quiz.measured(
    "A prompt becomes twice as long. Which of these numbers of our own run only doubles, or less?",
    right="blocks: MiB",
    why="What grows with the prompt is its queries and its output. Of the scores, one block is there at a time.",
    mistakes={
        "all scores: MiB": "Twice as many queries meet twice as many keys: four times as many scores.",
        "blocks: ms": "Every query still meets every key that it sees. Blocks save memory, and not arithmetic.",
        "kernel: ms": "It is faster, and yet it computes as many scores: four times for twice the prompt.",
    },
)
def only_doubles(record: Record, column: str) -> str:
    return column if all(column in cells for cells in record.values()) else ""
