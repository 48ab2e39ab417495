"""The quiz of week 3, day 6."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


