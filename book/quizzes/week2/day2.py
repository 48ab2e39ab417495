"""The quiz of week 2, day 2."""

from typing import Any

from tests.week2.stopwatch import Stopwatch

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "2.2.1",
    "The runs of a program take 50, 1, 1, 100 and 2 seconds. The first is the warm-up, and four are timed. What is the "
    "median?",
    why="The two in the middle of 1, 1, 2 and 100 seconds are 1 and 2, and halfway between them is 1.5.",
    mistakes={
        "mean": "The one disturbed run dominates the mean.",
        "no-warm-up": "The run of 50 seconds is the warm-up, and is not timed.",
        "upper-of-two": "With an even number of runs, two are in the middle.",
    },
)
def median(timed: Any) -> str:
    watch = Stopwatch((50.0, 1.0, 1.0, 100.0, 2.0))
    return numbers([timed(watch.program, least_runs=4, clock=watch.clock).median])


@quiz.question(
    "2.2.2",
    "Two layers, each with 6 heads that share 2 key-value heads of 4 numbers, in float32. The caches hold 7 tokens, "
    "and a decode step adds one. How many bytes of the caches does it read?",
    why="Per token, 2 layers of 2 heads of 4 numbers, keys and values, are 32 numbers or 128 bytes. The new token "
    "reads its own, too: 8 tokens.",
    mistakes={
        "cache-of-all-heads": "Three heads share one key, which is cached once.",
        "cache-of-keys": "A query is compared with keys, and averages values: both are read.",
        "new-keys-unread": "The new token attends to itself.",
    },
)
def cache_read(traffic: Any) -> str:
    from tiny_llm_solution.measure.step import Storage

    return str(traffic(_step(7, 1), Storage()).cache_read)


@quiz.question(
    "2.2.3",
    "One layer has one head of one number. Two tokens are cached, and three more are prefilled. How many FLOPs does "
    "attention take?",
    why="The three see 3, 4 and 5 keys. Each of these 12 pairs takes a multiplication and an addition for the score, "
    "and again for the value.",
    mistakes={
        "nothing-hidden": "The first of the three does not see the two after it.",
        "not-itself": "A token sees its own key.",
        "scores-alone": "Scores are the first half; the values must be summed, too.",
    },
)
def attention_flops(flops: Any) -> str:
    return str(flops(_step(2, 3, layers=1, heads=1, pairs=1, dims=1)).attention)


@quiz.question(
    "2.2.4",
    "A machine has 2 bytes/s of bandwidth and 8 FLOP/s. A step of n rows moves 19 bytes and does 8 n FLOPs. From how "
    "many rows on is it compute-bound?",
    why="Moving takes 9.5 seconds, computing n. With 10 rows computing takes longer.",
    mistakes={
        "last-before": "With 9 rows computing takes 9 seconds, and moving 9.5.",
        "ridge-for-turn": "4 FLOPs per byte are the ridge point; a step of 4 rows has 32 FLOPs for 19 bytes.",
        "first-of-memory": "With one row, the step is memory-bound.",
    },
)
def rows(roofline: Any) -> str:
    return str(roofline(2.0, 8.0).crossover(lambda n: (8 * n, 19), 100))


def _step(offset: int, length: int, layers: int = 2, heads: int = 6, pairs: int = 2, dims: int = 4) -> Any:
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.measure.step import Step

    return Step(ModelConfig("qwen3", 12, layers, 20, heads, pairs, dims, 29, 1e-6, 1e6, 96, True), length, offset)
