"""The quiz of week 3, day 1."""

from typing import Any

import mlx.core as mx
from tests.week1.reference_model import QWEN3, random_model
from tests.week3.stories import Notebook, Spelling, Teller, add_up, greedy

from tiny_llm_course.dev.book.questions import Record
from tiny_llm_course.dev.book.quizzes import Quiz

quiz = Quiz()


@quiz.question(
    "3.1.5",
    "Three slots, and five requests that write 4, 1, 2, 3 and 1 tokens. Who is read in the third step?",
    why="B has ended in the first step, so that D has come in with the second. C has ended in the second, for E.",
    mistakes={
        "only-when-all-are-done": "That is static batching: the slots of B and C stay empty until A has ended.",
        "one-slot-too-few": "Three slots are three requests, as long as somebody waits.",
        "one-slot-too-many": "Three slots are three requests at most.",
        "one-token-too-many": "B is asked for one token, and has it after the first step.",
    },
)
def third_step(step: Any) -> str:
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.serving.scheduler import Scheduler

    scheduler = Scheduler(Teller(add_up), Notebook(), slots=3, choose=greedy)
    for number, length in enumerate((4, 1, 2, 3, 1)):
        scheduler.submit(Request([3 + number], length))
    for _ in range(3):
        done = step(scheduler)
    return ", ".join(chr(65 + chunk.request.number) for chunk in done.chunks)


@quiz.question(
    "3.1.4",
    "The stop strings are `abcd` and `bc`. The pieces `xab` and `cd` come. What has the reader seen in the end?",
    why="After the first piece, `ab` may be the beginning of a stop string, so that only x is shown. Then `bc` is "
    "complete before `abcd`, and ends the text behind the a.",
    mistakes={
        "first-to-begin": "`abcd` begins first. But a text that comes letter by letter would have ended at c.",
        "string-shown": "A text ends before the stop string.",
        "nothing-held": "What has been shown cannot be taken back.",
    },
)
def what_is_seen(stops: Any) -> str:
    made = stops(Spelling(["xab", "cd"]), ["abcd", "bc"])
    return "".join([made.add(0), made.add(1), made.finish()]) or "nothing"


@quiz.question(
    "3.1.2",
    "One request has seven tokens in memory and brings one more. Another begins, with three. At which positions do the "
    "four tokens stand?",
    why="Each counts in its own text: the first one's token stands behind seven others, the others' at 0, 1 and 2.",
    mistakes={
        "positions-are-rows": "Rows are how the tokens stand in this one call, and mean nothing to RoPE.",
        "positions-from-zero": "The first request has seven tokens already.",
        "first-chunk-s-positions": "The second request has nothing to do with where the first one stands.",
        "positions-one-short": "Seven tokens stand at 0 to 6.",
    },
)
def positions(model: Any) -> str:
    from tiny_llm_solution.serving.ragged import RaggedModel
    from tiny_llm_solution.serving.request import Chunk, Request

    long, short = Request([5] * 12, 1), Request([5] * 3, 1)
    (known,) = _keys(RaggedModel, [Chunk(long, 0, [5] * 12, 1)])  # the same key, at each position
    (found,) = _keys(model, [Chunk(long, 7, [5], 1), Chunk(short, 0, [5] * 3, 1)])
    return ", ".join(str(int(mx.argmin(mx.abs(known - key).sum(axis=(1, 2))))) for key in found)


def _keys(model: Any, chunks: list[Any]) -> list[mx.array]:
    """What memory is given as keys, T x H_kv x D."""
    from tiny_llm_solution.config import ModelConfig

    whole, found = random_model(QWEN3, 1, num_hidden_layers=1), []

    class Watch:
        def attend(self, layer: int, query: mx.array, key: mx.array, value: mx.array, chunks: Any) -> mx.array:
            found.append(key)
            return query

    model(ModelConfig.from_dict(whole.config), whole.weights)(chunks, Watch())
    return found


@quiz.measured(
    "Which of these numbers of our own run grows as more requests are read at once, although each of them gets its "
    "tokens later?",
    right="our kernels: times",
    why="All requests share the weights that a step loads. Each step takes longer, and gives more tokens.",
    mistakes={
        "our kernels: ms": "This one is what a request waits for its next token.",
        "at once": "This one is what was chosen, not measured.",
    },
)
def grows(record: Record, column: str) -> str:
    return column if all(column in cells for cells in record.values()) else ""
