"""Ring collectives on simulated ranks and on real processes, and what each rank sends.

`python -m tests.week6.ringing FOLDER FOLDER` is one real rank: it runs the reduce-scatter of the package in the first
folder, then the all-gather of the one in the second, and prints the results.
"""

import json
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from tiny_llm_course.testkit.cases import noted, shape_words
from tiny_llm_course.testkit.errors import Kind, fail
from tiny_llm_course.testkit.ranks import RanksStopped, run_ranks
from tiny_llm_course.testkit.rounding import to_float64

COLLECTIVES = ("all_sum", "all_max", "all_gather")
REAL_SHAPE = (6, 2)  # of a real rank's array


def on_ranks(collective: Callable[..., Any], given: Sequence[mx.array], case: str) -> tuple[list[mx.array], list[Any]]:
    """Return each simulated rank's result, and the groups, with their calls; a deadlock fails the check.

    Args:
        collective: gets a rank's array and its group.
        given: each rank's array. None may be changed.
        case: in words.
    """
    before = [to_float64(x) for x in given]
    with noted(case):
        try:
            results, groups = run_ranks(
                lambda group: collective(given[group.rank], group), len(given), forbidden=COLLECTIVES
            )
        except RanksStopped as stopped:
            what, _, each = str(stopped).partition(": ")
            fail(Kind.RAISED, what, case, *filter(None, each.split("; ")))
        for x in results:
            if isinstance(x, mx.array):
                mx.eval(x)
    for rank, (x, y) in enumerate(zip(results, given, strict=True)):
        if type(x) is not mx.array:
            fail(Kind.TYPE, f"rank {rank} returned {type(x).__name__}, expected an mx.array", case)
        if x.shape != results[0].shape:
            shapes = f"rank 0: {shape_words(results[0].shape)}, rank {rank}: {shape_words(x.shape)}"
            fail(Kind.SHAPE, "ranks return different shapes", case, shapes)
        if not np.array_equal(to_float64(y), before[rank], equal_nan=True):
            line = "-=, += and x[...] = change an MLX array in place, for every reference to it"
            fail(Kind.INPUT_CHANGED, f"rank {rank} changes its array `x`", case, line)
    return results, groups


def stacked(collective: Callable[..., Any], parts: mx.array) -> mx.array:
    """Run a collective on the arrays of all ranks, ranks x N.., and stack the results."""
    case = f"{len(parts)} rank{'s' * (len(parts) != 1)}, {shape_words(parts.shape[1:])} each"
    return mx.stack(on_ranks(collective, [part + 0 for part in parts], case)[0])


def sends(groups: Sequence[Any]) -> list[list[str]]:
    """Return what each rank sends, in words: `2 x 3 to rank 1`."""
    return [
        [f"{shape_words(call.shape)} to rank {call.peer}" for call in group.calls if call.name == "send"]
        for group in groups
    ]


def check_sends(groups: Sequence[Any], shape: tuple[int, ...], case: str, dtype: mx.Dtype = mx.float32) -> None:
    """Check that each rank sends size - 1 arrays of this shape and dtype to its right neighbor."""
    for rank, sent in enumerate(sends(groups)):
        group = groups[rank]
        wanted = [f"{shape_words(shape)} to rank {group.right}"] * (group.size - 1)
        if sent != wanted:
            counts = ", ".join(f"{sent.count(each)} times {each}" for each in dict.fromkeys(sent)) or "nothing"
            lines = (f"expected  {group.size - 1} times {wanted[0] if wanted else 'anything'}", f"got       {counts}")
            fail(Kind.VALUES, f"rank {rank} sends something else", case, *lines)
        if others := {call.dtype for call in group.calls if call.name == "send"} - {dtype}:
            fail(Kind.DTYPE, f"rank {rank} sends {', '.join(map(str, others))}, expected {dtype}, as x has", case)


def outcome_of(collective: Callable[..., Any], *given: mx.array) -> tuple[mx.array, ...]:
    """Return each rank's result, and how many numbers it sends to the right and to others, for a probe."""
    results, groups = run_ranks(
        lambda group: collective(given[group.rank] + 0, group), len(given), forbidden=COLLECTIVES
    )
    counts = np.zeros((len(given), 2), int)
    for group in groups:
        for call in group.calls:
            if call.name == "send":
                counts[group.rank, int(call.peer != group.right)] += np.prod(call.shape, dtype=int)
    return *results, mx.array(counts)


def real_array(rank: int) -> mx.array:
    """Return a rank's array of small integers, whose sums are exact in any order."""
    return (mx.arange(12).reshape(REAL_SHAPE) * (rank + 3) % 17).astype(mx.float32)


def folder_of(function: Callable[..., Any], package: Any) -> Path:
    """Return the folder that has the package of a function: that of `package`, or ours if the task is borrowed."""
    file = getattr(sys.modules.get(function.__module__), "__file__", None)  # none for a known program
    return Path(file or package.__file__).parents[2]


def _ring_of(folder: str) -> Any:
    sys.path.insert(0, folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tiny_llm"]:
        del sys.modules[name]
    return import_module("tiny_llm.distributed.ring")


def main(scattering: str, gathering: str) -> None:
    """Run both on this real rank."""
    ring = _ring_of(scattering)
    group = import_module("tiny_llm.distributed.group").start("ring")
    chunk = ring.reduce_scatter(real_array(group.rank), group)
    whole = _ring_of(gathering).all_gather(chunk, group)
    print(json.dumps([chunk.tolist(), whole.tolist()]))


if __name__ == "__main__":
    main(*sys.argv[1:])
