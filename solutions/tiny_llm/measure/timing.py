"""Timing a call on a lazy engine."""

import dataclasses
import statistics
import time
from collections.abc import Callable

import mlx.core as mx


@dataclasses.dataclass(frozen=True)
class Timing:
    """The times of several runs of a program, in seconds."""

    median: float
    fastest: float
    slowest: float
    runs: int  # warm-up excluded


def timed(
    program: Callable[[], object],
    *,
    least_seconds: float = 0.5,
    least_runs: int = 3,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Time everything that a program computes, and nothing else.

    A run calls the program once and ends when all arrays in its result have been computed. The first runs warm up (they
    load and compile) and are not timed. Each later run is timed separately: the clock is read before the program is
    called, when no earlier work is still running on MLX's default stream, and again when the run has ended. It is read
    at no other time.

    Args:
        program: returns an array, nested lists, tuples and dicts of arrays, or no array at all.
        least_seconds: runs are timed until their total is at least this; warm-up runs do not count.
        least_runs: the minimum number of timed runs.
        warm_up: the number of warm-up runs.
        clock: returns the time in seconds.

    Returns:
        The median, shortest and longest time, and the number of timed runs. With an even number of runs the median is
        halfway between the two middle times.

    Raises:
        ValueError: least_runs is less than 1. The message states it.

    Source: `timeit.Timer.autorange`, with `mx.eval` and `mx.synchronize`.
    """
    if least_runs < 1:
        raise ValueError(f"least_runs is {least_runs}, but at least 1 is needed")
    for _ in range(warm_up):
        mx.eval(program())
    taken: list[float] = []
    while len(taken) < least_runs or sum(taken) < least_seconds:
        mx.synchronize()
        started = clock()
        mx.eval(program())
        taken.append(clock() - started)
    return Timing(statistics.median(taken), min(taken), max(taken), len(taken))
