"""Prefill and decode beside this machine's memory bandwidth and peak FLOP/s."""

from collections.abc import Callable

import mlx.core as mx

from tiny_llm.config import ModelConfig
from tiny_llm.measure.accounting import flops, traffic
from tiny_llm.measure.roofline import Roofline
from tiny_llm.measure.step import Step, Storage
from tiny_llm.measure.timing import timed
from tiny_llm.qwen3_cached.model import Qwen3CachedModel
from tiny_llm_course.checkpoints.checkpoint import load_checkpoint
from tiny_llm_course.engine.engine import find_model
from tiny_llm_course.measuring.clock import Cell, Table
from tiny_llm_course.measuring.machine import limits

# What the book draws of the table.
CHART = ("bars", "", ("% of bandwidth", "% of peak FLOP/s"))

ROWS = 1000  # largest batch tried when searching for the crossover


def measure(quick: bool = False) -> Table:
    """Measure prefill and decode steps of different lengths with the embedded model in float32."""
    checkpoint = load_checkpoint(find_model(None), mx.float32)
    config = ModelConfig.from_dict(checkpoint.config)
    model, machine = Qwen3CachedModel(config, checkpoint.weights), limits(quick)
    roofline = Roofline(machine.bandwidth, machine.rate)
    steps = [Step(config, length) for length in ((8,) if quick else (8, 64, 128))]
    steps += [Step(config, 1, offset) for offset in ((8,) if quick else (8, 64, 512))]
    rows: list[tuple[Cell, ...]] = []
    for step in steps:
        computed, moved = flops(step).total, traffic(step, Storage()).total
        taken = timed(_run(model, step), least_seconds=0.01 if quick else 0.5).median
        used = roofline.utilization(computed, moved, taken)
        name = f"decode after {step.offset}" if step.offset else f"prefill {step.length}"
        shares = (100 * used.bandwidth, 100 * used.compute)
        rows.append(
            (name, moved / 1e6, computed / 1e6, 1e3 * roofline.least_seconds(computed, moved), 1e3 * taken, *shares)
        )
    longest = next(step for step in reversed(steps) if not step.offset)
    unevaluated = timed(lambda: [_run(model, longest)(), None][1], least_seconds=0.01).median
    crossover = roofline.crossover(lambda n: _work(config, n), ROWS)
    where = f"a batch of {crossover} rows" if crossover else f"no batch of up to {ROWS:,} rows"
    return Table(
        ("step", "MB", "MFLOP", "lower bound: ms", "ms", "% of bandwidth", "% of peak FLOP/s"),
        tuple(rows),
        f"This machine has {machine.bandwidth / 1e9:.1f} GB/s of memory bandwidth and a peak of "
        f"{machine.rate / 1e9:.0f} GFLOP/s, so its ridge point is at {roofline.ridge():.1f} FLOPs per byte; {where} "
        f"reaches it when decoding after 64 tokens. Without mx.eval, the prefill of {longest.length} tokens seems to "
        f"take {1e3 * unevaluated:.2g} ms.",
    )


def _run(model: Qwen3CachedModel, step: Step) -> Callable[[], object]:
    """Return a program that runs the step; its time does not depend on token values."""
    caches = model.new_caches()
    if step.offset:
        mx.eval(model(mx.array([[258] * step.offset]), caches))
    tokens = mx.array([[258] * step.length])

    def run() -> object:
        logits = model(tokens, caches)
        for cache in caches:
            cache.rewind(step.length)
        return logits

    return run


def _work(config: ModelConfig, rows: int) -> tuple[int, int]:
    """Return the FLOPs and bytes of a decode step of `rows` sequences after 64 tokens."""
    step = Step(config, 1, 64, rows)
    return flops(step).total, traffic(step, Storage()).total
