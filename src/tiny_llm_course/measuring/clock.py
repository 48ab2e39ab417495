"""What every measurement stands on: honest seconds, honest memory, and a table to show them in.

Honest means: MLX computes nothing before it is asked to, so every result is computed to its end while the clock runs;
a first run, which loads and compiles, does not count; what is compared takes turns, so that a machine that slows down
slows all of it; and of several runs the median counts, which one disturbed run does not move.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mlx.core as mx

ROUNDS = (3, 25)  # at least, at most
BUDGET = 1.5  # seconds for the rounds of one comparison, unless the fewest take longer

Program = Callable[[], object]  # what it gives may be lazy arrays, or anything
Cell = str | int | float


@dataclass(frozen=True)
class Table:
    """What a measurement found. The first column names the row, the others are numbers with their unit in the heading.

    `see` is a sentence that says what to see in it, made from the numbers.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    see: str


def in_turns(programs: Sequence[Program], rounds: int) -> list[list[float]]:
    """The seconds that each program takes in each round; every other round goes through them backwards."""
    taken = [[0.0] * rounds for _ in programs]
    for number in range(rounds):
        for i in range(len(programs))[:: -1 if number % 2 else 1]:
            started = time.perf_counter()
            mx.eval(programs[i]())
            taken[i][number] = time.perf_counter() - started
    return taken


def seconds(*programs: Program) -> list[float]:
    """The median seconds of each program, measured in turns, after a round that does not count."""
    once = sum(first for (first,) in in_turns(programs, 1))
    return [statistics.median(times) for times in in_turns(programs, rounds_for(once))]


def rounds_for(once: float, budget: float = BUDGET) -> int:
    """How many rounds there are time for, if one of them takes so many seconds."""
    fewest, most = ROUNDS
    return max(fewest, min(most, int(budget / once)))


def peak_memory(program: Program) -> int:
    """The most bytes that MLX held at once while the program ran, beyond what it held before."""
    mx.synchronize()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    mx.eval(program())
    return max(0, mx.get_peak_memory() - before)


def on_cpu() -> bool:
    """Whether MLX computes on the CPU."""
    return mx.default_device().type == mx.DeviceType.cpu


def number(cell: Cell) -> str:
    """A cell as it is shown: three digits of a measured number, all of a counted one."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int) or abs(cell) >= 1000:
        return f"{cell:,.0f}"
    digits = f"{cell:.3g}"
    return digits if "e" not in digits else f"{cell:.5f}"
