"""The quiz of week 1, day 7."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()

WORDS = ["blue", "car", "dog", "bird"]


def _logits() -> mx.array:
    return mx.log(mx.array([[0.3, 0.05, 0.5, 0.15]]))


def _left(logits: mx.array) -> str:
    """The words that a filter leaves."""
    return ", ".join(f"*{word}*" for word, kept in zip(WORDS, logits[0] > -mx.inf, strict=True) if kept.item())


@quiz.question(
    "1.7.1",
    "The logits are `2, -1, 3`. Token 0 was used twice and token 1 once, and the penalty is 2. What do the logits "
    "become?",
    why="2 / 2 is 1, -1 · 2 is -2, and token 2 was not used. How often a token was used makes no difference.",
    mistakes={
        "always-divided": "-0.5 is larger than -1, so the used token has become more likely.",
        "once-per-occurrence": "Token 0 was divided twice, but each used token is penalized once.",
        "subtracted": "A penalty of 1 should change nothing, but subtracting 1 would.",
    },
)
def penalty_of_two(penalize: Any) -> str:
    return f"`{numbers(penalize(mx.array([[2.0, -1.0, 3.0]]), [[0, 1, 0]], 2.0))}`"


@quiz.question(
    "1.7.3",
    "The vocabulary is *blue*, *car*, *dog*, *bird*, with the probabilities 0.3, 0.05, 0.5 and 0.15. What does top-p "
    "keep with p = 0.7?",
    why="*dog* alone has 0.5, which is less than p. *blue* raises the sum to 0.8, and the token that crosses p is "
    "kept.",
    mistakes={
        "crossing-dropped": "*dog* alone has a probability of 0.5, but the sum must reach 0.7.",
        "one-too-many": "0.8 is already enough: the sum *before* a token decides whether it is kept.",
        "mask-in-sorted-order": "The first entry of the sorted mask is for *dog*, but the first logit is for *blue*.",
    },
)
def nucleus(keep_top_p: Any) -> str:
    return _left(keep_top_p(_logits(), 0.7))


@quiz.question(
    "1.7.4",
    "With the same four words, what does min-p keep if min_p = 0.2?",
    why="The most likely word has a probability of 0.5, and a fifth of that is 0.1. *bird*, with 0.15, is above this "
    "threshold.",
    mistakes={
        "against-one": "0.15 is less than 0.2, but min_p is relative to the largest probability.",
        "one-minus-min-p": "A min_p of 0.8, not 0.2, would require four fifths of the largest probability.",
    },
)
def share_of_the_best(keep_min_p: Any) -> str:
    return _left(keep_min_p(_logits(), 0.2))
