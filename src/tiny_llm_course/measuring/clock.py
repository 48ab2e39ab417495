"""Timing, memory, and the table of a benchmark.

MLX is lazy, so results are evaluated while the clock runs. A first run does not count; compared programs run
interleaved, so that a slow phase affects all; the median of several runs counts.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import mlx.core as mx

ROUNDS = (3, 25)  # at least, at most
BUDGET = 1.5  # seconds for a comparison, unless the minimum of rounds takes longer

Program = Callable[[], object]  # may return lazy arrays, or anything
Cell = str | int | float


class Table(NamedTuple):
    """A benchmark's result: the first column names the row, the others are numbers; `see` says what they show."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    see: str


def in_turns(programs: Sequence[Program], rounds: int) -> list[list[float]]:
    """Return each program's seconds in each round; every other round runs them in reverse order."""
    taken = [[0.0] * rounds for _ in programs]
    for number in range(rounds):
        for i in range(len(programs))[:: -1 if number % 2 else 1]:
            started = time.perf_counter()
            mx.eval(programs[i]())
            taken[i][number] = time.perf_counter() - started
    return taken


def seconds(*programs: Program) -> list[float]:
    """Return each program's median seconds, interleaved, after a warm-up round."""
    once = sum(first for (first,) in in_turns(programs, 1))
    return [statistics.median(times) for times in in_turns(programs, rounds_for(once))]


def rounds_for(once: float, budget: float = BUDGET) -> int:
    """Return how many rounds fit into the budget if one takes `once` seconds."""
    fewest, most = ROUNDS
    return max(fewest, min(most, int(budget / once)))


def peak_memory(program: Program) -> int:
    """Return MLX's peak memory in bytes while the program ran, minus what was allocated before."""
    mx.synchronize()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    mx.eval(program())
    return max(0, mx.get_peak_memory() - before)


def on_cpu() -> bool:
    """Return whether MLX computes on the CPU."""
    return mx.default_device().type == mx.DeviceType.cpu


def number(cell: Cell) -> str:
    """Format a cell: three digits of a measured number, all digits of a counted one."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    digits = f"{cell:.3g}"
    return digits if "e" not in digits else f"{cell:.5f}"
