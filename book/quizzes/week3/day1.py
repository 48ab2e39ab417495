"""The quiz of week 3, day 1."""

from typing import Any

import mlx.core as mx
from tests.week1.reference_model import QWEN3, random_model
from tests.week3.stories import Notebook, Spelling, Teller, add_up, greedy

from tiny_llm_course.dev.book.quizzes import Quiz, Record

quiz = Quiz()


@quiz.question(
    "3.1.5",
    "Five requests A to E generate 4, 1, 2, 3 and 1 tokens in three slots. Which requests are in the third step?",
    why="B finishes in the first step, so D joins in the second. C finishes in the second, so E joins in the third.",
    mistakes={
        "only-when-all-are-done": "That is static batching: the slots of B and C stay empty until A has finished.",
        "one-slot-too-few": "All three slots are in use as long as a request is waiting.",
        "one-slot-too-many": "With a fourth slot, E would already have run in the second step.",
        "one-token-too-many": "B needs only one token, and gets it in the first step.",
    },
)
def third_step(step: Any) -> str:
    from tiny_llm_solution.serving.request import Request
    from tiny_llm_solution.serving.scheduler import Scheduler

    scheduler = Scheduler(Teller(add_up), Notebook(), max_num_seqs=3, sampler=greedy)
    for number, length in enumerate((4, 1, 2, 3, 1)):
        scheduler.submit(Request([3 + number], length))
    for _ in range(3):
        done = step(scheduler)
    return ", ".join(chr(65 + chunk.request.request_id) for chunk in done.chunks)


@quiz.question(
    "3.1.4",
    "The stop strings are `abcd` and `bc`. The pieces `xab` and `cd` arrive. What has the user seen at the end?",
    why="After the first piece, `ab` may be the beginning of a stop string, so only `x` is shown. In the second "
    "piece, `bc` is complete before `abcd`, so the output ends after the `a`.",
    mistakes={
        "first-to-begin": "`abcd` starts first, but character by character, `bc` is complete first.",
        "string-shown": "The user would see `bc`, which only marks the end of the output.",
        "nothing-held": "The `ab` was shown too early, and output cannot be taken back.",
    },
)
def what_is_seen(stops: Any) -> str:
    made = stops(Spelling(["xab", "cd"]), ["abcd", "bc"])
    return "".join([made.add(0), made.add(1), made.finish()]) or "nothing"


@quiz.question(
    "3.1.2",
    "One request has seven cached tokens and computes one more. Another request starts with three tokens. At which "
    "positions are the four tokens?",
    why="Positions are relative to the sequence. The token of the first request follows seven others, so it is at "
    "position 7. The tokens of the second request are at positions 0, 1 and 2.",
    mistakes={
        "positions-are-rows": "A row is a token's index in the batch, but RoPE needs its position in the sequence.",
        "positions-from-zero": "The first request already has seven tokens.",
        "first-chunk-s-positions": "The positions of the second request do not depend on the first request.",
        "positions-one-short": "The seven cached tokens are at 0 to 6.",
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
    "In our own run, a step takes longer with more requests in it. Which column shows that batching is worthwhile all "
    "the same?",
    right="our kernels: throughput",
    why="All requests share the weights that a step loads, so a longer step still generates more tokens per second.",
    mistakes={
        "our kernels: ms": "This column shows the price: each request waits longer for its next token.",
        "requests": "This is the size of the batch itself, which we chose. It is not a result.",
    },
)
def grows(record: Record, column: str) -> str:
    return column if all(column in cells for cells in record.values()) else ""
