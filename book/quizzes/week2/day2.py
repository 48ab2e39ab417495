"""The quiz of week 2, day 2."""

from typing import Any

from tests.week2.stopwatch import Stopwatch

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "2.2.1",
    "Five runs of a program take 50, 1, 1, 100 and 2 seconds. The first is the warm-up, and the other four are timed. "
    "What is the median?",
    why="The two middle times of 1, 1, 2 and 100 are 1 and 2, and 1.5 is halfway between them.",
    mistakes={
        "mean": "The mean is dominated by the one disturbed run.",
        "no-warm-up": "The run of 50 seconds is the warm-up, so it is not timed.",
        "upper-of-two": "The two middle times are 1 and 2, and their mean is 1.5.",
    },
)
def median(timed: Any) -> str:
    watch = Stopwatch((50.0, 1.0, 1.0, 100.0, 2.0))
    return numbers([timed(watch.program, least_runs=4, clock=watch.clock).median])


@quiz.question(
    "2.2.2",
    "A float32 model has two layers, each with 6 heads that share 2 key-value heads of 4 features. The caches hold 7 "
    "tokens, and a decode step adds one token. How many bytes of the caches does the step read?",
    why="In both layers, a token's keys and values are 32 elements, or 128 bytes. The step reads 8 tokens, "
    "including the new one.",
    mistakes={
        "cache-of-all-heads": "Three heads share each key-value head, which is cached once.",
        "cache-of-keys": "Keys and values together take twice that, 1,024 bytes.",
        "new-keys-unread": "The new token also attends to itself, so attention reads 8 tokens, not 7.",
    },
)
def cache_read(traffic: Any) -> str:
    from tiny_llm_solution.measure.step import Storage

    return str(traffic(_step(7, 1), Storage()).cache_read)


@quiz.question(
    "2.2.3",
    "A model has one layer with one head of one feature. Two tokens are cached, and three more are prefilled. How many "
    "FLOPs does attention take?",
    why="The three tokens see 3, 4 and 5 keys. Each of these 12 pairs takes a multiply-add for the score and "
    "another for the value.",
    mistakes={
        "nothing-hidden": "The first new token does not see the two tokens after it.",
        "not-itself": "The three tokens see 3, 4 and 5 keys, not 2, 3 and 4.",
        "scores-alone": "Scores and values take 24 FLOPs each.",
    },
)
def attention_flops(flops: Any) -> str:
    return str(flops(_step(2, 3, layers=1, heads=1, pairs=1, dims=1)).attention)


@quiz.question(
    "2.2.4",
    "A machine has 2 bytes/s of bandwidth and 8 FLOP/s. A step of n rows moves 19 bytes and does 8 n FLOPs. What is "
    "the smallest n for which the step is compute-bound?",
    why="The memory traffic takes 9.5 seconds and the arithmetic takes n seconds, so the step is compute-bound from "
    "n = 10 on.",
    mistakes={
        "last-before": "With 9 rows, the arithmetic takes 9 seconds and the memory traffic takes 9.5 seconds.",
        "ridge-for-turn": "The ridge point is 4 FLOPs per byte, but a step of 4 rows has 32 FLOPs for 19 bytes.",
        "first-of-memory": "One row is memory-bound: it takes 1 second to compute, but its bytes take 9.5 seconds to "
        "move.",
    },
)
def rows(roofline: Any) -> str:
    return str(roofline(2.0, 8.0).crossover(lambda n: (8 * n, 19), 100))


def _step(offset: int, length: int, layers: int = 2, heads: int = 6, pairs: int = 2, dims: int = 4) -> Any:
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.measure.step import Step

    return Step(ModelConfig("qwen3", 12, layers, 20, heads, pairs, dims, 29, 1e-6, 1e6, 96, True), length, offset)
