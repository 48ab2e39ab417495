"""The quiz of week 1, day 1."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "1.1.1",
    "`x` has two rows of float32 scores, `1000, 1000` and `0, 0`. Which weights does `softmax(x, axis=-1)` return?",
    why="Softmax depends only on the differences between scores. Both scores of a row are equal, so each weight is a "
    "half.",
    mistakes={
        "no-maximum": "exp(1000) is infinite in float32, and infinity over infinity is NaN.",
        "global-maximum": "The second row's exponentials, exp(-1000), are 0 in float32, and 0 over 0 is NaN.",
        "sum-of-everything": "Four equal exponentials are divided by one sum, so the weights of a row sum to a half.",
    },
)
def two_rows(softmax: Any) -> str:
    rows = softmax(mx.array([[1000.0, 1000.0], [0.0, 0.0]]), -1)
    return " and ".join(f"`{numbers(row)}`" for row in rows)


@quiz.question(
    "1.1.2",
    "A query is compared with three keys, with D = 4. The dot products are 2.2, 0 and 0, and the values are 8, 0 and "
    "16. The mask hides the third key. What is the output? (exp(1.1) is 3.0, and exp(2.2) is 9.0.)",
    why="The scale is 1/2, so the scores are 1.1 and 0, and their weights are 3/4 and 1/4. Three quarters of 8 is 6.",
    mistakes={
        "no-scale": "The weights are then 9/10 and 1/10, so the first key gets too much weight.",
        "mask-ignored": "Without the mask, the weights are 3/5, 1/5 and 1/5, so the hidden value 16 contributes.",
        "mask-after-softmax": "After the softmax, the hidden key already has a fifth of the weight, and masking it "
        "does not redistribute that weight.",
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
    why="Each row of `w` computes one output. The first output is 1 · 1 + 2 · 2 + 10, and the second output is "
    "1 · 3 + 2 · 4 + 20.",
    mistakes={
        "not-transposed-when-square": "`x @ w` uses the columns of `w`, and a square matrix hides that.",
        "no-bias": "For x = 0, the output would be 0 instead of the bias.",
        "bias-subtracted": "For x = 0, the output would be the bias with the wrong sign.",
    },
)
def square_weight(linear: Any) -> str:
    return numbers(linear(mx.array([1.0, 2.0]), mx.array([[1.0, 2.0], [3.0, 4.0]]), mx.array([10.0, 20.0])))
