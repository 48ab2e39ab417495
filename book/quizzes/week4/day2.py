"""The quiz of week 4, day 2."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "4.2.1",
    "A layer has two heads with their own keys and values, and D = 1. A token's six features are 1, 2, 3, 4, 5 and 6, "
    "and the layout is interleaved. Which features are the two values?",
    why="The order is q0 k0 v0 q1 k1 v1, so the values are the third and the sixth feature.",
    mistakes={
        "always-blocks": "In blocks, q0 q1 k0 k1 v0 v1, these would be the values.",
        "keys-and-values-exchanged": "Of every three features, the second is the key.",
    },
)
def two_values(split_qkv: Any) -> str:
    fused = mx.arange(1, 7).astype(mx.float32)[None]
    return " and ".join(numbers(split_qkv(fused, 2, 2, "interleaved")[2]).split(", "))


@quiz.question(
    "4.2.2",
    "A weight `w` has six rows in blocks, and `w[rows]` is to be the same weight, interleaved. What is `rows`?",
    why="The new order is q0 k0 v0 q1 k1 v1, and in blocks, these are rows 0, 2, 4, 1, 3 and 5.",
    mistakes={
        "the-inverse": "This list converts back: it says where each row of `w` is in the interleaved weight.",
        "every-row-in-its-place": "If no row moved, k0 would still follow q1.",
    },
)
def six_rows(qkv_permutation: Any) -> str:
    return numbers(qkv_permutation(2, 2, 1, "blocks", "interleaved"))


@quiz.question(
    "4.2.3",
    "Every element is 6, and the rate is 0.25. What does an element that is not dropped become?",
    why="On average, 3/4 of the elements are kept, so each is divided by 3/4: 6 / 0.75 is 8.",
    mistakes={
        "not-scaled": "Without scaling, the mean would be 4.5 in training but 6 at inference.",
        "scaled-by-the-rate": "This is 6 / 0.25, and the mean would be 18.",
        "made-smaller": "This is 6 times 0.75. Dropout already reduces the mean, and this reduces it further.",
    },
)
def what_stays(dropout: Any) -> str:
    return numbers(mx.max(dropout(mx.full((1000,), 6.0), 0.25, True, mx.random.key(1))))


@quiz.question(
    "4.2.4",
    "A query has a score of 2 for the first of two keys and a score of 0 for the second key. The mask is "
    "`[False, True]`. Which weights are returned?",
    why="True keeps a key, so only the second key is visible.",
    mistakes={
        "booleans-added": "The scores would be 2 + 0 and 0 + 1, but a boolean mask is not a bias to add.",
        "booleans-inverted": "If True hid a key, the second would be hidden, and the first would get all the weight.",
        "hidden-is-zero": "A score of 0 hides nothing: exp(0) is 1, as for the second key.",
    },
)
def two_keys(attention: Any) -> str:
    query, key = mx.ones((1, 1, 1)), mx.array([[[2.0], [0.0]]])
    return numbers(attention(query, key, mx.ones((1, 2, 1)), 1.0, mx.array([False, True]))[1])
