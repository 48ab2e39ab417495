"""The quiz of week 4, day 1."""

import math
from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, Record, numbers

quiz = Quiz()


@quiz.question(
    "4.1.1",
    "There are three sequences, three heads, two queries and two keys. `mask` is 3 x 2 x 2: its first 2 x 2 entries "
    "are True, and the others are False. What is the shape of the result, and how many of its elements are 0?",
    why="A mask with three axes is B x L x S. The queries of the first sequence see both keys, in every head, and the "
    "queries of the other two sequences see no key. The head axis stays 1.",
    mistakes={
        "three-axes-by-head": "A mask with three axes is B x L x S. For H x L x S, a caller passes 1 x H x L x S.",
        "true-hides": "True keeps a key, so the first sequence sees everything.",
        "spread-out": "All heads have the same mask, so the head axis stays 1.",
    },
)
def three_by_two_by_two(attention_mask: Any) -> str:
    visible = mx.broadcast_to(mx.array([True, False, False])[:, None, None], (3, 2, 2))
    made = attention_mask(3, 3, 2, 2, mx.float32, mask=visible)
    return f"{' x '.join(map(str, made.shape))}, {mx.sum(made == 0).item()}"


@quiz.question(
    "4.1.2",
    "The scores of a query are 0, 0 and ln 2, and the values are 3, 6 and 9. A boolean mask hides all keys. What "
    "is the output?",
    why="A fully masked row returns zeros.",
    mistakes={
        "masked-rows-mean": "The mean of 3, 6 and 9 is 6, but no key is visible.",
        "masked-rows-nan": "-inf - -inf is NaN, which spreads to every token that attends to this token.",
        "mask-ignored": "This output gives the weights 1/4, 1/4 and 1/2 to hidden keys.",
    },
)
def nothing_in_sight(attention: Any) -> str:
    values = mx.array([[3.0], [6.0], [9.0]])
    keys = mx.array([[0.0], [0.0], [math.log(2)]])
    return numbers(attention(mx.ones((1, 1)), keys, values, mx.zeros((1, 3)) == 1))


@quiz.question(
    "4.1.3",
    "A layer has one head with D = 1, all weights are 1, and the only bias is `bo = 5`. The memory contains 2 and 4, "
    "and `key_mask` hides both. What is the output for the token 0?",
    why="The head returns 0, and the output projection computes 0 · 1 + 5. It also adds 5 for every other token.",
    mistakes={
        "masked-tokens-get-zeros": "The head's output is 0, but the output projection follows.",
        "true-hides": "False hides a key. If both keys were visible, the output would be the mean of 2 and 4 plus 5.",
    },
)
def token_without_a_memory(program: Any) -> str:
    one = mx.ones((1, 1))
    layer = program(1, one, one, one, one, bo=mx.array([5.0]))
    memory = mx.array([[[2.0], [4.0]]])
    return numbers(layer(mx.zeros((1, 1, 1)), *layer.read(memory), key_mask=mx.zeros((1, 2)) == 1))


@quiz.measured(
    "In our own run, 512 queries take as long with 64 visible keys as with 512. Why does the mask save no time?",
    right="The scores of hidden keys are computed before the mask sets them to -inf.",
    why="The products have the same shapes with any mask. Slicing removes the hidden keys before the products.",
    mistakes={
        "Adding the mask takes as long as it saves.": "The mask is one addition per score, and a score takes 64 "
        "multiplications.",
        "The mask hides keys only from the softmax of padded queries.": "It hides them from every query.",
        "The mask is built for each query.": "Even a mask that cost nothing would save nothing, because both products "
        "include all keys.",
    },
)
def no_time_saved(record: Record, cause: str) -> str:
    few, all_keys = (float(record[keys]["masked: ms"]) for keys in ("64", "512"))
    return cause if 0.95 < few / all_keys < 1.05 else ""
