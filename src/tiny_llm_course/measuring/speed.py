"""Times a task's programs against the solution: `python -m tiny_llm_course.measuring.speed TASK FILE` (JSON lines)."""

import io
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx

from ..course.entities import Task
from ..course.registry import load_course
from ..paths import LEARNER, put_first
from ..programs import kernels
from ..programs.packages import SOLUTION_NAME, NotImportable, import_learner, program
from ..testkit.naming import right, solved
from ..testkit.rounding import close
from ..testkit.variants import Program, Size, load_variants
from .clock import in_turns, peak_memory, rounds_for

BUDGET = 0.8  # seconds for the rounds of one pair
TOO_LONG = 1.0  # seconds; a slower program is not timed further
CLOSENESS = 1e-3  # tolerance of the result check; the graded tests are stricter


class Timing(NamedTuple):
    """One program against the solution. The learner's has no name; `failed` says why there are no figures."""

    name: str
    runs: int = 0
    seconds: float = 0.0  # the solution's median
    ratio: float = 0.0  # program's time / solution's, median of the pairs
    low: float = 0.0  # the quartiles of the pairs
    high: float = 0.0
    memory: int = 0  # the solution's peak, in bytes
    memory_ratio: float = 0.0
    failed: str = ""


def timings(task: Task) -> Iterator[Timing]:
    """Time the learner's program, then the accepted ones, yielding each as it is known."""
    variants, target = load_variants(task), task.program
    assert variants.size
    needs = [load_course().task(need) for need in load_course().needs(task.id)]
    for each in [*needs, task]:
        import_learner(each.program.module)
    try:
        ours, mine = program(target, SOLUTION_NAME), program(target)
    except (NotImportable, AttributeError):
        yield Timing("", failed=f"{target.file} cannot be imported or has no {target.name}")
        return
    # Both use the solution of the earlier tasks: only this task's code is compared.
    with solved(needs):
        if not right(variants, mine):
            yield Timing("", failed="your code does not compute the same as ours yet")
            return
        with kernels.fast(edited=True):
            found = against("", variants.size, mine, ours)
            yield Timing("", failed=f"your code {found.failed}, on {variants.size.words}") if found.failed else found
            for variant in variants.accepted_programs:
                yield against(variant.name, variants.size, variant.program, ours)


def against(name: str, size: Size, subject: Program, ours: Program) -> Timing:
    """Time a program interleaved with the solution, after a run of each that checks the result."""
    our_run = size.build(ours)
    expected, our_seconds = _once(our_run)
    try:
        run = size.build(subject)
        result, seconds = _once(run)
    except Exception as error:
        return Timing(name, failed=f"raises {type(error).__name__}")
    if seconds > TOO_LONG:
        return Timing(name, failed=f"takes {seconds:.2g} s, and ours {our_seconds:.2g} s")
    if not (close(result, expected, CLOSENESS) if isinstance(expected, mx.array) else result == expected):
        return Timing(name, failed="computes another result than ours")
    taken, ours_taken = in_turns([run, our_run], runs := rounds_for(seconds + our_seconds, BUDGET))
    ratios = [mine / its for mine, its in zip(taken, ours_taken, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4, method="inclusive")
    # Peak memory varies from run to run with how far MLX's scheduling runs ahead.
    memory, our_memory = (max(1, *(peak_memory(each) for _ in range(min(runs, 5)))) for each in (run, our_run))
    median = statistics.median(ours_taken)
    return Timing(name, runs, median, ratio, low, high, our_memory, memory_ratio=memory / our_memory)


def _once(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result, and the seconds it took."""
    started = time.perf_counter()
    mx.eval(result := run())
    return result, time.perf_counter() - started


def main() -> None:
    """Time the task of the first argument, and write to the file of the second."""
    mx.set_default_device(mx.cpu)
    put_first(LEARNER)
    silence = io.StringIO()
    with Path(sys.argv[2]).open("w", encoding="utf-8") as file, redirect_stdout(silence), redirect_stderr(silence):
        for timing in timings(load_course().task(sys.argv[1])):
            print(json.dumps(timing._asdict()), file=file, flush=True)


if __name__ == "__main__":
    main()
