"""The seconds of a call, on an engine that computes nothing before it is asked to."""

import dataclasses
import statistics
import time
from collections.abc import Callable

import mlx.core as mx


@dataclasses.dataclass(frozen=True)
class Timing:
    """What several runs of a program took, in seconds each."""

    median: float
    fastest: float
    slowest: float
    runs: int  # that were timed


def timed(
    program: Callable[[], object],
    *,
    least_seconds: float = 0.5,
    least_runs: int = 3,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> Timing:
    """Time a program honestly: everything that it computes, and nothing else.

    A run calls the program once, and ends when all arrays of what it gives have been computed. The first runs warm up:
    they load and compile, and are not timed. Each later run is timed by itself: the clock is read before the program
    is called, when nothing that was started earlier is still being computed on MLX's default stream, and again when
    the run has ended. It is read at no other time.

    Args:
        program: what it gives may be an array, lists, tuples and dicts of arrays however deep, or no array at all.
        least_seconds: runs are timed until they have taken so long together; those that warm up do not count.
        least_runs: and until there are so many of them.
        warm_up: how many runs are not timed.
        clock: gives the time in seconds.

    Returns:
        The median, the shortest and the longest of the timed runs, and how many there were. Of an even number of runs
        the median is halfway between the two in the middle.

    Raises:
        ValueError: least_runs is less than 1.

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
