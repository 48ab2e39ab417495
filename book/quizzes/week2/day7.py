"""The quiz of week 2, day 7."""

import math
from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "2.7.1",
    "The scores of a row are 0 and ln 2, in two blocks, and the values are 3 and 9. What is the result?",
    why="The weights are 1/3 and 2/3, so the result is 1 + 6. Relative to ln 2, their total is 1.5.",
    mistakes={
        "total-not-rescaled": "The first weight is 1 relative to 0, but 1/2 relative to ln 2, so the total must be "
        "rescaled too.",
        "values-not-rescaled": "The weighted sum 3 · 1 is relative to 0. Relative to ln 2, the first weight is 1/2.",
        "never-rescaled": "Relative to ln 2, the first weight is 1/2, in both sums.",
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
    "Causal attention runs over six tokens in blocks of two. Every score is 0, and the values are 1 to 6. What are the "
    "outputs of the fifth and the sixth query?",
    why="The fifth query sees the values 1 to 5, and the sixth query sees 1 to 6, so the averages are 3 and 3.5. Both "
    "queries are in the third block.",
    mistakes={
        "nothing-hidden-within-a-block": "The third block is partly masked: the fifth query does not see key 6.",
        "keys-up-to-the-first-query": "The sixth query sees its own key, which the first query of its block does not.",
        "queries-counted-from-the-block": "The first query of the third block is query 4, not query 0.",
        "not-itself": "A query sees its own key: the fifth query sees 1 to 5, and the sixth query sees 1 to 6.",
    },
)
def third_block(flash: Any) -> str:
    values = mx.arange(1, 7).astype(mx.float32).reshape(1, 6, 1)
    attended = flash(mx.zeros((1, 6, 1)), mx.ones((1, 6, 1)), values, mask="causal", block=2)
    return " and ".join(numbers(attended[0, i]) for i in (4, 5))


@quiz.question(
    "2.7.4",
    "One query sees three keys, so 29 of 32 lanes have no key. Every score is 0, and the values are 3, 6 and 9. What "
    "is the output?",
    why="Three weights are 1, and 29 are exp(-inf) = 0, so the output is 18 / 3.",
    mistakes={
        "total-of-a-lane": "Lane 0 has the only feature but only one key. The total is over all three keys.",
        "hidden-is-zero": "If a masked score is 0, all 32 weights are 1, and the output is 18 / 32.",
        "largest-of-a-lane": "The maximum is over all lanes. A lane without a key has -inf, and -inf - -inf is NaN.",
    },
)
def three_keys(flash: Any) -> str:
    values = mx.array([3.0, 6.0, 9.0]).reshape(1, 3, 1)
    return numbers(flash(mx.zeros((1, 1, 1)), mx.ones((1, 3, 1)), values))


@quiz.measured(
    "In our own run, a prompt twice as long takes less than twice the memory with blocks, but more than three times as "
    "long. Why?",
    right="Every score is still computed, but only one block of them is stored.",
    why="Queries and output grow with the prompt, and the number of scores with its square. Blocks save memory, not "
    "arithmetic.",
    mistakes={
        "The scores are computed twice: for the maximum, and for the sum.": "The online softmax needs each score once, "
        "because one factor corrects the earlier sums. And twice the work would not change how the time grows.",
        "A row's running state grows with the number of blocks.": "A row stores its maximum, its sum and its weighted "
        "sum of the values, however many blocks there are.",
        "Blocks that are fully masked are computed, too.": "They are skipped: of 16 · 16 blocks, 136 are computed.",
    },
)
def memory_and_time(record: Record, cause: str) -> str:
    short, long = (record[tokens] for tokens in ("1024", "2048"))
    memory, time = (float(long[column]) / float(short[column]) for column in ("blocks: MiB", "blocks: ms"))
    return cause if memory < 2 and time > 3 else ""
