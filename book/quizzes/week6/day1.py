"""The quiz of week 6, day 1."""

from typing import Any

import mlx.core as mx

from tiny_llm_course.dev.book.quizzes import Quiz, numbers
from tiny_llm_course.testkit.ranks import run_ranks

quiz = Quiz()


@quiz.question(
    "6.1.1",
    "Three ranks have 1 2 3, 10 20 30 and 100 200 300, and each value is a chunk. What does rank 1 return from "
    "`reduce_scatter`?",
    why="Rank 1 owns chunk 1: 2 + 20 + 200.",
    mistakes={
        "the-right-neighbors-chunk": "The sum of chunk 2 must end at rank 2.",
        "adds-its-own-chunk": "A rank must add its part of the chunk that it has received.",
        "sends-its-own-parts": "Rank 2's part is lost: rank 0 does not include it in what it sends.",
        "mean": "The sum is not divided.",
    },
)
def rank_one(reduce_scatter: Any) -> str:
    given = [mx.array([1.0, 2.0, 3.0]) * 10**rank for rank in range(3)]
    results, _ = run_ranks(lambda group: reduce_scatter(given[group.rank], group), 3)
    return numbers(results[1].tolist())


@quiz.question(
    "6.1.2",
    "Three ranks have 7, 8 and 9. What does rank 2 return from `all_gather`?",
    why="The values are in rank order on all three ranks, although rank 2 receives 8 first and then 7.",
    mistakes={
        "in-order-of-arrival": "Each rank would return a different order.",
        "sends-its-own-each-time": "Rank 1 sends 8 in both steps, so 7 never reaches rank 2.",
        "stored-to-the-right": "The first value to arrive is the left neighbor's and belongs at that neighbor's rank.",
    },
)
def rank_two(all_gather: Any) -> str:
    results, _ = run_ranks(lambda group: all_gather(mx.array([7.0 + group.rank]), group), 3)
    return numbers(results[2].tolist())


@quiz.question(
    "6.1.3",
    "A message takes 20 μs and 0.5 ns per byte. How many microseconds does a ring all-reduce of 8,000 bytes take with "
    "four ranks?",
    why="A rank sends six messages of 2,000 bytes, one after another: 6 x (20 + 1).",
    mistakes={
        "one-latency": "Each of the six messages has its own latency.",
        "complete-arrays": "A step sends a quarter of the array.",
        "as-many-steps-as-ranks": "A rank does not receive from itself, so each phase has three steps, not four.",
        "half-of-it": "After the reduce-scatter, each rank has only a quarter of the sum.",
    },
)
def all_reduce_of_four(model: Any) -> str:
    return numbers([1e6 * model(20e-6, 0.5e-9).ring_all_reduce(8000, 4)])
