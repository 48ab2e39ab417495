"""The bubble of a pipeline of two processes: predicted by its formula, simulated, and measured.

`python benches/week6/day3.py` records the passes of one step per order in timeline.json, for the chapter's picture.
"""

import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiny_llm.pipeline.passes import gpipe, simulate
from tiny_llm.pipeline.schedule import one_forward_one_backward
from tiny_llm_course.measuring.clock import Table

# What the book draws of the table.
CHART = ("lines", "bubble, %", ("predicted", "1F1B", "GPipe"))

RANKS, LAYERS, LENGTH = 2, 4, 48
ORDERS = {"1F1B": one_forward_one_backward, "GPipe": gpipe}
STEPS = 2  # measured, after one that does not count
TIMELINE, DRAWN = Path(__file__).with_name("timeline.json"), 4  # micro-batches of the picture
Passes = list[list[tuple[bool, float, float]]]  # by rank: forward or not, start and end in seconds


def measure(quick: bool = False) -> Table:
    """Train with one to eight micro-batches."""
    counts = [1, 2] if quick else [1, 2, 4, 8]
    measured = run(counts, 1 if quick else STEPS)
    rows = []
    for count in counts:
        steps = measured["1F1B", count]
        times = [_mean_times([step[rank] for step in steps]) for rank in range(RANKS)]
        orders = [one_forward_one_backward(rank, RANKS, count) for rank in range(RANKS)]
        found = {name: statistics.median(map(_bubble, measured[name, count])) for name in ORDERS}
        predicted = (RANKS - 1) / (count + RANKS - 1)
        shares = predicted, simulate(orders, times).bubble, *found.values()
        rows.append((count, *(100 * share for share in shares)))
    last = rows[-1]
    return Table(
        ("micro-batches", "predicted", "simulated", *ORDERS),
        tuple(rows),
        f"With {last[0]} micro-batches, the formula predicts a bubble of {last[1]:.0f} %, and the processes of 1F1B "
        f"wait {last[3]:.0f} % of the time; with one, {rows[0][1]:.0f} % and {rows[0][3]:.0f} %.",
    )


def run(counts: Sequence[int], steps: int) -> dict[tuple[str, int], list[Passes]]:
    """Run steps of all orders and numbers of micro-batches on real ranks, and return each step's passes."""
    import tiny_llm
    from tiny_llm_course.paths import ROOT
    from tiny_llm_course.ranks import launch

    package = Path(tiny_llm.__path__[0]).parent
    path = os.pathsep.join(map(str, (package, ROOT / "src")))
    command = [sys.executable, __file__, "rank", json.dumps([list(counts), steps])]
    found = [json.loads(text) for text in launch(command, RANKS, environment={"PYTHONPATH": path})]
    return {
        (name, count): [[found[rank][f"{name} {count}"][step] for rank in range(RANKS)] for step in range(steps)]
        for name in ORDERS
        for count in counts
    }


def rank(counts: Sequence[int], steps: int) -> None:
    """Run one rank's passes, and print when each began and ended."""
    import mlx.core as mx
    import numpy as np

    from tiny_llm.config import ModelConfig
    from tiny_llm.dataset.packing import pack_documents
    from tiny_llm.distributed.group import start
    from tiny_llm.pipeline.stage import Stage
    from tiny_llm.pipeline.step import pipeline_step
    from tiny_llm.training.model import initial_params

    mx.set_default_device(mx.cpu)
    group = start("ring")
    # The last stage computes no forward pass of its own, but the head: this vocabulary makes the stages equally long.
    config = ModelConfig("qwen3", 128, LAYERS, 384, 2, 2, 64, 1024, 1e-6, 1e4, LENGTH, True)
    stage = Stage(config, group.rank, group.size)
    params = stage.own(initial_params(config, 0))
    tokens = np.random.default_rng(0).integers(0, 1000, LENGTH * max(counts)).tolist()
    rows = pack_documents([tokens], LENGTH, 0)
    found: dict[str, list[list[tuple[bool, float, float]]]] = {}
    for name, order_of in ORDERS.items():
        for count in counts:
            batches = [rows[m : m + 1] for m in range(count)]
            order = order_of(group.rank, group.size, count)
            found[f"{name} {count}"] = []
            for _ in range(1 + steps):
                mx.eval(group.all_sum(mx.array(0.0)))  # all ranks start together
                stage.passes.clear()
                pipeline_step(stage, params, batches, order, group)
                found[f"{name} {count}"].append([(*each,) for each in stage.passes])
            found[f"{name} {count}"].pop(0)
    print(json.dumps(found))


def _bubble(step: Passes) -> float:
    """Return the share of the ranks' time, from the first pass to the end of the last one, without a pass."""
    slots = [slot for passes in step for slot in passes]
    span = max(end for _, _, end in slots) - min(start for _, start, _ in slots)
    return 1 - sum(end - start for _, start, end in slots) / (span * len(step))


def _mean_times(steps: Sequence[Sequence[tuple[bool, float, float]]]) -> tuple[float, float]:
    """Return the mean seconds of a rank's forward and backward passes."""

    def mean(forward: bool) -> float:
        times = [end - start for step in steps for kind, start, end in step if kind == forward]
        return statistics.fmean(times) if times else 0.0

    return mean(True), mean(False)


def record() -> None:
    """Write timeline.json: one step of each order, in milliseconds from its first pass."""
    from tiny_llm_course.measuring.machine import machine

    measured = run([DRAWN], 3)
    steps: dict[str, Any] = {}
    for name in ORDERS:
        step = sorted(measured[name, DRAWN], key=_bubble)[1]
        first = min(start for passes in step for _, start, _ in passes)
        steps[name] = [
            [[kind, *(round(1000 * (t - first), 2) for t in times)] for kind, *times in passes] for passes in step
        ]
    TIMELINE.write_text(json.dumps({"machine": machine(), "steps": steps}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["rank"]:
        rank(*json.loads(sys.argv[2]))
    else:
        record()
