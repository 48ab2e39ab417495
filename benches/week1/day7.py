"""Cost of sampling a token, beside the model's forward pass."""

from functools import partial

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.qwen3 import Qwen3Model
from tiny_llm.sampler import make_sampler
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Table, seconds

# What the book draws of the table.
CHART = ("bars", "", ("% of forward pass", "V = 151,936: ms"))

SAMPLERS = {
    "greedy": make_sampler(temp=0),
    "temperature": make_sampler(temp=0.7),
    "penalty": make_sampler(temp=0.7, repetition_penalty=1.1),
    "top-k 50": make_sampler(temp=0.7, top_k=50),
    "top-p 0.9": make_sampler(temp=0.7, top_p=0.9),
    "min-p 0.1": make_sampler(temp=0.7, min_p=0.1),
}


def measure(quick: bool = False) -> Table:
    """Measure filtering plus sampling, for the embedded model's vocabulary and for a large one."""
    large = 10_000 if quick else 151_936  # Qwen3's
    text = [258] * 100
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    model = Qwen3Model(config, checkpoint.weights)
    # One token's forward pass: the work per token that remains in week 2.
    programs = [partial(model, mx.array([[258]]))]
    for size in (config.vocab_size, large):
        logits = 3 * mx.random.normal((1, size))
        mx.eval(logits)
        programs += [partial(sample, logits, [text]) for sample in SAMPLERS.values()]
    one_token, *times = seconds(*programs)
    in_small, in_large = times[: len(SAMPLERS)], times[len(SAMPLERS) :]
    rows = [
        (name, small * 1e3, 100 * small / one_token, big * 1e3, big / in_large[0])
        for name, small, big in zip(SAMPLERS, in_small, in_large, strict=True)
    ]
    slowest = max(rows, key=lambda row: row[-1])
    return Table(
        ("sampler", f"V = {config.vocab_size:,}: ms", "% of forward pass", f"V = {large:,}: ms", "ratio to greedy"),
        tuple(rows),
        f"The percentages are relative to the model's forward pass of one token, {one_token * 1e3:.1f} ms. With a "
        f"vocabulary of {large:,}, {slowest[0]} takes {slowest[-1]:.0f} times as long as greedy.",
    )
