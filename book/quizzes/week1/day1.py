"""The quiz of week 1, day 1."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "1.1.1",
    "Two rows of float32 scores, `1000, 1000` and `0, 0`. Which weights does `softmax(x, axis=-1)` return, row by row?",
    why="Only differences matter, and both rows have none: each score gets half of its row.",
    mistakes={
        "no-maximum": "exp(1000) is infinite in float32, and infinity over infinity is not a number.",
        "global-maximum": "The second row's exponentials, exp(-1000), are 0 in float32, and 0 over 0 is not a number.",
        "sum-of-everything": "Four equal exponentials share one sum, so a row's weights sum to a half.",
    },
)
def two_rows(softmax: Any) -> str:
    rows = softmax(mx.array([[1000.0, 1000.0], [0.0, 0.0]]), -1)
    return " and ".join(f"`{numbers(row)}`" for row in rows)


@quiz.question(
    "1.1.2",
    "One query and three keys, with D = 4. The dot products are 2.2, 0 and 0, and the values are 8, 0 and 16. The "
    "mask hides the third key. What is the output? (The exponential of 1.1 is 3.0, that of 2.2 is 9.0.)",
    why="The scale is 1/2, so the scores are 1.1 and 0, and their weights 3/4 and 1/4: three quarters of 8.",
    mistakes={
        "no-scale": "The weights are then 9/10 and 1/10: the first key takes more than it should.",
        "mask-ignored": "Weights of 3/5, 1/5 and 1/5 let the hidden 16 in.",
        "mask-after-softmax": "The hidden key has taken its fifth of the weight by then, and it is not redistributed.",
    },
)
def three_keys(attention: Any) -> str:
    query = mx.array([[1.0, 0.0, 0.0, 0.0]])
    key = mx.array([[2.2, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]])
    value = mx.array([[8.0], [0.0], [16.0]])
    return numbers(attention(query, key, value, mask=mx.array([[0.0, 0.0, -mx.inf]])), 1)


@quiz.question(
    "1.1.3",
    "`x` is `1, 2`, `w` is `[[1, 2], [3, 4]]` and `bias` is `10, 20`. What is `linear(x, w, bias)`?",
    why="A row of `w` belongs to an output: 1 · 1 + 2 · 2 + 10 is the first, 1 · 3 + 2 · 4 + 20 the second.",
    mistakes={
        "not-transposed-when-square": "`x @ w` uses the columns of `w`, and a square matrix hides that.",
        "no-bias": "For x = 0 it would give 0 instead of the bias.",
        "bias-subtracted": "For x = 0 it would give the bias with the wrong sign.",
    },
)
def square_weight(linear: Any) -> str:
    return numbers(linear(mx.array([1.0, 2.0]), mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.array([10.0, 20.0])))
