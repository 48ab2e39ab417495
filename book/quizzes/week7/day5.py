"""The quiz of week 7, day 5."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "7.5.1",
    "What becomes of the numbers 1, 2 and 3?",
    why="Each is added to itself.",
    mistakes={"unchanged": "These are the numbers that went in."},
)
def three_numbers(program: Any) -> str:
    return f"`{numbers(program(mx.array([1.0, 2.0, 3.0])))}`"
