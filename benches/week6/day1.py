"""What a message costs: a step of the ring beside the fitted line, and all-reduces beside their model."""

import json
import sys
from pathlib import Path

import tiny_llm
from tiny_llm.distributed.cost import CostModel
from tiny_llm.distributed.ring import all_gather, all_reduce, reduce_scatter
from tiny_llm_course.measuring.clock import Table
from tiny_llm_course.ranks import launch

# What the book draws of the table.
CHART = ("lines", "μs of an all-reduce", ("ring, 4 ranks: us", "one-shot, 4 ranks: us"))

SIZES = tuple(1 << power for power in (6, 9, 12, 15, 18, 21, 24))  # bytes
BUDGET = 0.2  # seconds for a program and a size
WORKER = Path(__file__).with_name("ring_seconds.py")
CALLED = reduce_scatter, all_gather, all_reduce  # by the ranks


def measure(quick: bool = False) -> Table:
    """Time rings of 2 and 4 processes over TCP on this machine, and fit the line to a step of each."""
    sizes = SIZES[::3] if quick else SIZES
    of_two, of_four = (_timed(ranks, BUDGET / 20 if quick else BUDGET, sizes) for ranks in (2, 4))
    two, four = (CostModel.fit(sizes, times["step"]) for times in (of_two, of_four))
    rows = []
    for i, num_bytes in enumerate(sizes):
        pairs = (
            (of_two["step"][i], two.message(num_bytes)),
            (of_four["ring"][i], four.ring_all_reduce(num_bytes, 4)),
            (of_four["one-shot"][i], four.one_shot_all_reduce(num_bytes, 4)),
        )
        seconds = [each for pair in pairs for each in pair] + [of_four["all_sum"][i]]
        rows.append((num_bytes / 1024, *(1e6 * each for each in seconds)))
    return Table(
        (
            "KiB per array",
            *("step, 2 ranks: us", "fitted: us"),
            *("ring, 4 ranks: us", "model of ring: us"),
            *("one-shot, 4 ranks: us", "model of one-shot: us"),
            "MLX, 4 ranks: us",
        ),
        tuple(rows),
        f"A step between two ranks takes {1e6 * two.latency:.0f} us and {1e9 * two.seconds_per_byte:.2f} ns per byte; "
        f"among four, {1e6 * four.latency:.0f} us and {1e9 * four.seconds_per_byte:.2f} ns per byte. For four ranks, "
        f"the model puts the crossover of one-shot and ring at {four.crossover(4) / 1024:.0f} KiB.",
    )


def _timed(ranks: int, budget: float, sizes: tuple[int, ...]) -> dict[str, list[float]]:
    """Return seconds by program and size: of the slowest rank, because all must have finished."""
    folder = Path(str(tiny_llm.__file__)).parents[1]
    command = [sys.executable, str(WORKER), str(budget), *map(str, sizes)]
    found = [json.loads(text) for text in launch(command, ranks, environment={"PYTHONPATH": str(folder)})]
    return {name: [max(each) for each in zip(*(one[name] for one in found), strict=True)] for name in found[0]}
