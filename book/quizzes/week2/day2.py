"""The quiz of week 2, day 2."""

from typing import Any

from tests.week2.stopwatch import Stopwatch

from tiny_llm_course.dev.book.quizzes import Quiz, numbers

quiz = Quiz()


@quiz.question(
    "2.2.1",
    "The runs of a program take 50, 1, 1, 100 and 2 seconds. One of them warms up, and four are timed. What is the "
    "median?",
    why="Of 1, 1, 2 and 100 seconds the two in the middle are 1 and 2, and halfway between them is 1.5.",
    mistakes={
        "mean": "The one disturbed run is a quarter of the mean.",
        "no-warm-up": "The run of 50 seconds warms up, and is not timed.",
        "upper-of-two": "Of an even number, two are in the middle.",
    },
)
def median(timed: Any) -> str:
    watch = Stopwatch((50.0, 1.0, 1.0, 100.0, 2.0))
    return numbers([timed(watch.program, least_runs=4, clock=watch.clock).median])


@quiz.question(
    "2.2.2",
    "Two layers, each with 6 heads that share 2 key-value heads of 4 numbers, in float32. The caches hold 7 tokens, "
    "and one more is read. How many bytes of the caches does the step read?",
    why="A token has 2 layers of 2 heads of 4 numbers, keys and values, which is 32 numbers or 128 bytes. The new "
    "token reads its own, too: 8 tokens.",
    mistakes={
        "cache-of-all-heads": "Three heads read one key, and it is kept once.",
        "cache-of-keys": "A query meets keys; what it takes with it are values.",
        "new-keys-unread": "The new token sees itself.",
    },
)
def cache_read(traffic: Any) -> str:
    from tiny_llm_solution.measure.step import Storage

    return str(traffic(_step(7, 1), Storage()).cache_read)


@quiz.question(
    "2.2.3",
    "One layer with one head of one number. Three tokens come after two that were read before. How many FLOPs does "
    "attention take?",
    why="The three meet 3, 4 and 5 keys. Each of these 12 pairs is one multiplication and addition for the score, and "
    "one for the value.",
    mistakes={
        "nothing-hidden": "The first of the three does not meet the two behind it.",
        "not-itself": "A token meets its own key.",
        "scores-alone": "Scores are the first half; the values are to be summed.",
    },
)
def attention_flops(flops: Any) -> str:
    return str(flops(_step(2, 3, layers=1, heads=1, pairs=1, dims=1)).attention)


@quiz.question(
    "2.2.4",
    "A machine moves 2 bytes a second and does 8 FLOPs. A step of n rows moves 19 bytes and does 8 n FLOPs. From how "
    "many rows on is arithmetic the limit?",
    why="Moving takes 9.5 seconds, computing n. With 10 rows computing takes longer.",
    mistakes={
        "last-before": "With 9 rows computing takes 9 seconds, and moving 9.5.",
        "ridge-for-turn": "4 FLOPs a byte are the ridge; a step of 4 rows has 32 FLOPs for 19 bytes.",
        "first-of-memory": "With one row, memory is the limit.",
    },
)
def rows(roofline: Any) -> str:
    return str(roofline(2.0, 8.0).turn(lambda n: (8 * n, 19), 100))


def _step(offset: int, length: int, layers: int = 2, heads: int = 6, pairs: int = 2, dims: int = 4) -> Any:
    from tiny_llm_solution.config import ModelConfig
    from tiny_llm_solution.measure.step import Step

    return Step(ModelConfig("qwen3", 12, layers, 20, heads, pairs, dims, 29, 1e-6, 1e6, 96, True), length, offset)
