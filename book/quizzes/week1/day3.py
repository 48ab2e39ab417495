"""The quiz of week 1, day 3."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "1.3.1",
    "Two new tokens follow two older tokens: `causal_mask(2, 4, mx.float32)`. How many of the four keys does the first "
    "new token see, and how many does the second new token see?",
    why="The new tokens are the last two of four. The first new token sees the two older tokens and itself. The second "
    "new token sees all four.",
    mistakes={
        "upper-left": "The last token would not even see itself.",
        "strict-diagonal": "A token attends to itself as well, and the very first token has nothing else to attend to.",
        "one-too-many": "The first new token would see the token that it should predict.",
    },
)
def keys_in_sight(causal_mask: Any) -> str:
    first, second = (mx.sum(row == 0).item() for row in causal_mask(2, 4, mx.float32))
    return f"{first} and {second}"


@quiz.question(
    "1.3.2",
    "Qwen3-0.6B has 16 query heads and 8 key-value heads. Which key-value head does query head 5 use?",
    why="Each group has 16 / 8 = 2 neighboring heads, and 5 // 2 is 2. Query head 4 uses the same key-value head.",
    mistakes={
        "tile": "5 % 8 is 5, but heads are not dealt out like cards: neighbors share a key-value head.",
        "first-kv-head-only": "The other seven key-value heads would be stored but never used.",
    },
)
def head_that_is_read(grouped: Any) -> str:
    kv_heads = mx.arange(8.0).reshape(8, 1, 1)  # each head's only value is its own number
    return numbers(grouped(mx.zeros((16, 1, 1)), mx.zeros((8, 1, 1)), kv_heads)[5])


@quiz.question(
    "1.3.2",
    "H = 4, H_kv = 2 and D = 4. A query's dot products with its two keys are 4.4 and 0. How much weight does the first "
    "key get? (The softmax of 2.2 and 0 gives 2.2 a weight of 0.9.)",
    why="A dot product sums over the D = 4 elements of one head, so the scale is 1/2 and the score is 2.2.",
    mistakes={
        "no-scale": "The score then stays at 4.4, and the weight is 81/82.",
        "scale-by-all-heads": "For H · D = 16 elements, the scale would be 1/4, but no dot product sums over all "
        "heads.",
    },
)
def weight_of_the_first_key(grouped: Any) -> str:
    query = mx.broadcast_to(mx.array([1.0, 0.0, 0.0, 0.0]), (4, 1, 4))
    key = mx.broadcast_to(mx.array([[4.4, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]]), (2, 2, 4))
    value = mx.broadcast_to(mx.array([[1.0], [0.0]]), (2, 2, 1))
    return numbers(grouped(query, key, value)[0])


quiz.message(
    "1.3.1",
    "day3-upper-left",
    "A causal mask fails a test, and this is the report without the name of the mistake. What is the mistake?",
    why="A single query is at the last of four positions, so it may see all keys. If it is treated as the first query, "
    "it sees only key 0, so 3 of 4 elements are wrong, starting with key 1.",
    mistakes={
        "strict-diagonal": "Only key 3, at the query's own position, would be wrong: 1 of 4 elements.",
        "one-too-many": "The last query has no later key to see, so this case would pass.",
        "inverted": "All four keys would be masked, although none of them is in the future.",
    },
)
