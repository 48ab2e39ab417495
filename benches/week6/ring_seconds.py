"""A rank that times its collectives: `python ring_seconds.py BUDGET BYTES...` prints medians as JSON, by algorithm."""

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import mlx.core as mx

from tiny_llm.distributed.group import Group, start
from tiny_llm.distributed.ring import all_gather, all_reduce

FEWEST, MOST = 3, 40  # rounds of a program


def step(x: mx.array, group: Group) -> mx.array:
    """Send to the right while receiving from the left: one step of a ring, in which odd ranks receive first."""
    if group.rank % 2:
        received = group.receive(x.shape, x.dtype, group.left)
        group.send(x, group.right)
        return received
    group.send(x, group.right)
    return group.receive(x.shape, x.dtype, group.left)


def one_shot(x: mx.array, group: Group) -> mx.array:
    """Gather all complete arrays, and add them up on every rank."""
    return mx.sum(all_gather(x[None], group), axis=0)


PROGRAMS: dict[str, Callable[[mx.array, Group], mx.array]] = {
    "step": step,
    "ring": all_reduce,
    "one-shot": one_shot,
    "all_sum": lambda x, group: group.all_sum(x),
}


def main(budget: float, sizes: list[int]) -> None:
    """Run each program on arrays of these sizes, and print this rank's medians in seconds; `budget` is for each."""
    group = start()
    found: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for num_bytes in sizes:
        x = mx.ones(num_bytes // 4)
        mx.eval(x)
        for name, program in PROGRAMS.items():
            slowest: Any = group.all_max(mx.array(_seconds(program, x, group))).item()  # all ranks run as many rounds
            rounds = max(FEWEST, min(MOST, int(budget / slowest)))
            found[name].append(statistics.median(_seconds(program, x, group) for _ in range(rounds)))
    print(json.dumps(found))


def _seconds(program: Callable[[mx.array, Group], mx.array], x: mx.array, group: Group) -> float:
    mx.eval(group.all_sum(mx.zeros(1)))  # all begin at the same time
    begun = time.perf_counter()
    mx.eval(program(x, group))
    return time.perf_counter() - begun


if __name__ == "__main__":
    main(float(sys.argv[1]), [int(each) for each in sys.argv[2:]])
