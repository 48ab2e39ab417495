"""Cost of the next token without a cache, as the sequence grows."""

from functools import partial

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.generate import generate_tokens
from tiny_llm.qwen3 import Qwen3Model
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table, on_cpu, seconds

# What the book draws of the table.
CHART = ("lines", "ms for the next token", ("next token: ms",))


def measure(quick: bool = False) -> Table:
    """Measure one generation step of the embedded model after sequences of different lengths."""
    lengths = [1, 10, 50, 100, 200] if on_cpu() else [1, 10, 100, 500, 1000, 2000]  # a GPU needs more to do
    if quick:
        lengths = lengths[:2]
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    model = Qwen3Model(ModelConfig.from_dict(checkpoint.config), checkpoint.weights)
    # The time does not depend on token values, so one token is repeated.
    times = seconds(*(partial(_next_token, model, [258] * length) for length in lengths))
    rows = [(n, taken * 1e3, taken / times[0]) for n, taken in zip(lengths, times, strict=True)]
    return Table(
        ("tokens so far", "next token: ms", "ratio to first row"),
        tuple(rows),
        f"After {lengths[-1]} tokens, the next one takes {times[-1] / times[1]:.0f} times as long as after "
        f"{lengths[1]} and {times[-1] / times[0]:.0f} times as long as after 1: each step recomputes all earlier "
        "tokens.",
    )


def _next_token(model: Qwen3Model, tokens: list[int]) -> int:
    return next(generate_tokens(model, tokens, 1))
