"""Times the programs of a task, in a process of its own: `python -m tiny_llm_course.speed TASK FILE`.

The inputs are those of the task's first float32 probe, made larger until the solution has something to do. The
programs take turns, so that a machine that slows down slows all of them. FILE gets one JSON object a line.
"""

import dataclasses
import io
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from . import replay
from .measuring import in_turns, peak_memory
from .packages import SOLUTION_NAME, NotImportable, import_learner, program
from .paths import LEARNER
from .registry import Task, load_course
from .replay import Asked
from .rounding import to_float64
from .variants import Program, load_variants, solved

ENOUGH = 3e-3  # seconds that the solution should be busy
TOO_SMALL = 2e-4  # seconds: below this a call is mostly Python finding its way to MLX
TOO_LONG = 0.1  # seconds: inputs that keep a program longer are not used
LARGEST = 1 << 23  # elements of all arguments together
BUDGET = 1.0  # seconds for the runs of one pair
RUNS = (3, 15)  # at least, at most
WAYS = (replay.all_axes, replay.all_axes_and_numbers, replay.batch, replay.texts, replay.again)
FACTORS = [2**n for n in range(13)]

Way = Callable[[Asked, int], Asked]
Step = Callable[[Program], Asked]  # takes down what the probe asks of this program, and makes it larger


@dataclasses.dataclass(frozen=True)
class Timing:
    """One program against the solution. A name is empty for the learner's; `failed` says why there are no figures."""

    name: str
    inputs: str = ""
    runs: int = 0
    seconds: float = 0.0  # the solution's median
    ratio: float = 0.0  # the program's time by the solution's, the median of the pairs
    low: float = 0.0  # the quartiles of the pairs
    high: float = 0.0
    memory: int = 0  # the solution's peak, in bytes
    memory_ratio: float = 0.0
    failed: str = ""


def timings(task: Task, report: Callable[[Timing], None]) -> None:
    """Time the learner's program, then the accepted ones, and report each as soon as it is known."""
    variants = load_variants(load_course().day(task.week, task.day))
    probe = variants.first_probe(task.id)
    if probe is None:
        report(Timing("", failed="the task has no float32 input to time it on"))
        return
    target = task.targets[0]
    needs = [load_course().task(need) for need in load_course().needs(task.id)]
    for each in [*needs, task]:
        import_learner(each.targets[0].module)
    try:
        ours, mine = program(target, SOLUTION_NAME), program(target)
    except (NotImportable, AttributeError):
        report(Timing("", failed=f"{target.module}.py cannot be imported or has no {target.name}"))
        return
    # Both stand on the solution of the earlier tasks: only this task's code is compared.
    with solved(needs):
        if not variants.right(task, mine):
            report(Timing("", failed="your code does not compute the same as ours yet"))
            return
        steps = _steps(lambda p: replay.taken_down(probe, p), mine, ours)
        for name, subject in [("", mine), *((v.name, v.program) for v in variants.accepted_of(task.id))]:
            report(_against(name, steps, subject, ours))


def _steps(take_down: Callable[[Program], Asked], mine: Program, ours: Program) -> list[Step]:
    """Ever larger inputs, up to some that keep the solution busy, which both programs answer alike.

    Of the ways to make them larger, the first one that gets there, or else the one that comes closest.
    """
    best: list[Step] = []
    most = -1.0
    for way in WAYS:
        steps: list[Step] = []
        before, seconds = 0, 0.0
        for factor in FACTORS:
            step = partial(_larger, take_down, way, factor)
            times = _alike(step, mine, ours)
            size = replay.size(step(ours)) if times else 0
            if times is None or not before < size <= LARGEST:
                break
            steps.append(step)
            before, (_, seconds) = size, times
            if seconds >= ENOUGH:
                return steps
        if seconds > most:
            best, most = steps, seconds
    return best


def _larger(take_down: Callable[[Program], Asked], way: Way, factor: int, subject: Program) -> Asked:
    return way(take_down(subject), factor)


def _alike(step: Step, subject: Program, ours: Program) -> tuple[float, float] | None:
    """The seconds that the program and the solution take; None if they disagree, fail, or take too long."""
    try:
        our_answers, our_seconds = _at_best(ours, step(ours))
        answers, seconds = _at_best(subject, step(subject)) if our_seconds <= TOO_LONG else ([], 0.0)
    except Exception:
        return None  # the inputs do not fit together any more, or are not what the task allows
    return (seconds, our_seconds) if seconds <= TOO_LONG and _same(our_answers, answers) else None


def _against(name: str, steps: list[Step], subject: Program, ours: Program) -> Timing:
    reached, times = None, (0.0, 0.0)
    for step in steps:
        if (found := _alike(step, subject, ours)) is None:
            break
        reached, times = step, found
    if reached is None or max(times) < TOO_SMALL:
        return Timing(name, failed="too small to time")
    asked, our_asked = reached(subject), reached(ours)
    runs = max(RUNS[0], min(RUNS[1], int(BUDGET / sum(times))))
    both = [partial(replay.ask, subject, asked), partial(replay.ask, ours, our_asked)]
    taken, ours_taken = in_turns(both, runs)
    ratios = [a / b for a, b in zip(taken, ours_taken, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    memory, our_memory = (max(1, peak_memory(each)) for each in both)
    return Timing(
        name,
        replay.in_words(our_asked),
        runs,
        statistics.median(ours_taken),
        middle,
        low,
        high,
        our_memory,
        memory / our_memory,
    )


def _at_best(subject: Program, asked: Asked) -> tuple[list[Any], float]:
    """The answers, and the least seconds of three runs: another process may take the processor at any time."""
    answers, seconds = _timed(subject, asked)
    if seconds <= TOO_LONG:
        seconds = min(seconds, _timed(subject, asked)[1], _timed(subject, asked)[1])
    return answers, seconds


def _timed(subject: Program, asked: Asked) -> tuple[list[Any], float]:
    started = time.perf_counter()
    answers = replay.ask(subject, asked)
    return answers, time.perf_counter() - started


def _same(mine: list[Any], other: list[Any]) -> bool:
    """Equal, arrays to a thousandth of their largest number: the graded tests look more closely."""
    if len(mine) != len(other):
        return False
    for a, b in zip(mine, other, strict=True):
        if isinstance(a, mx.array) and isinstance(b, mx.array):
            if a.shape != b.shape:
                return False
            x, y = to_float64(a), to_float64(b)
            largest = float(np.abs(np.where(np.isfinite(y), y, 0.0)).max(initial=0.0))
            if not np.allclose(x, y, rtol=0.0, atol=1e-3 * largest, equal_nan=True):
                return False
        elif isinstance(a, replay.ANSWERS) and a != b:
            return False
    return True


def main() -> None:
    """Time the task of the first argument and write to the file of the second."""
    mx.set_default_device(mx.cpu)
    sys.path.insert(0, str(LEARNER.parent))
    with Path(sys.argv[2]).open("w", encoding="utf-8") as file:

        def report(timing: Timing) -> None:
            file.write(json.dumps(dataclasses.asdict(timing)) + "\n")
            file.flush()

        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            timings(load_course().task(sys.argv[1]), report)


if __name__ == "__main__":
    main()
