"""The quiz of week 1, day 2."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "1.2.1",
    "With D = 4 and base 100, by what angle is pair 1 (the second pair) rotated at position 3?",
    why="The frequency of pair 1 is 100 to the power of -2/4, or 0.1 radian per position, and the angle at position 3 "
    "is three times that.",
    mistakes={
        "positions-from-1": "The first token would be rotated too, although it is at position 0.",
        "exponent-i-over-D": "100 to the power of -1/4 is 0.316, and three times that is nearly a radian.",
        "pairs-from-1": "1/100 would be the frequency of pair 2, which does not exist for D = 4.",
    },
)
def second_pair(rotation_angles: Any) -> str:
    return numbers(rotation_angles(4, 8, 100)[3, 1])


@quiz.question(
    "1.2.2",
    "With D = 2, there is a single pair, which rotates by 1 radian per position. The vector `1, 2` is at position 33, "
    "and 33 radians are almost exactly five and a quarter turns. What is RoPE's output, rounded to integers?",
    why="A quarter turn has cosine 0 and sine 1, so `a, b` becomes `-b, a`.",
    mistakes={
        "rotated-backwards": "A quarter turn should rotate `1, 0` to `0, 1`. This program rotates it to `0, -1`.",
        "both-signs-plus": "One of the two sines must have a minus sign, or lengths change at other angles.",
        "sin-and-cos-exchanged": "A quarter turn then has no effect, and position 0 would be rotated instead.",
        "first-overwritten": "The second feature should be 1 times the sine, but here it is -2 times the sine.",
    },
)
def quarter_turn(rope: Any) -> str:
    return numbers(rope(2, 40)(mx.array([1.0, 2.0]).reshape(1, 1, 1, 2), slice(33, 34)), 0)


@quiz.question(
    "1.2.2",
    "Now D = 4, with `traditional=False` and a base so large that only the first pair rotates. The vector "
    "`1, 2, 3, 4` is at position 33, which is again a quarter turn. What is the output, rounded to integers?",
    why="With `traditional=False`, 1 is paired with 3, and 2 with 4. The first pair becomes `-3, 1`, and both values "
    "return to their places.",
    mistakes={
        "always-neighbors": "The program paired 1 with 2, as for `traditional=True`, and a quarter turn rotates "
        "this pair to `-2, 1`.",
        "offset-ignored": "The slice says that the token is at position 33, so it must be rotated.",
        "rotated-backwards": "The pair is right, but `a, b` became `b, -a`.",
    },
)
def first_of_two_pairs(rope: Any) -> str:
    turn = rope(4, 40, base=100_000_000, traditional=False)
    return numbers(turn(mx.array([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4), slice(33, 34)), 0)
