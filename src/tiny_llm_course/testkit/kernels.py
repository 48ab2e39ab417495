"""Tests of kernels: which build a check runs, and what a kernel may cost.

C++ kernels run in the checked build, which reports invalid memory accesses by line and runs a loop's chunks one after
another; `fast` switches to the fast build once that has found nothing. Metal kernels run in the simulator, whose counts
are the same on every machine.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx

from memory_watch.library import Library
from metal_simulator import Counters

from ..course.findings import CheckFailed, Finding, Kind
from ..programs import kernels
from ..programs.launches import counted
from ..programs.parts import KernelFault
from .agreement import computed
from .cases import describe
from .memo import key_of

LINE = 64  # bytes of a line of device memory

# {0} is the kernel's count, {1} the limit.
WORDS = {
    "moved": "your kernel moves {times:.1f} times the bytes that it needs to: {0:,}, where {1:,} are enough",
    "bank_conflicts": "your kernel has {0:,} bank conflicts in threadgroup memory, where {1:,} are enough",
    "barriers": "your kernel's threadgroups wait at {0:,} barriers, where {1:,} are enough",
}


def fast(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function on the build that an engine runs."""
    return kernels.fast()(kernel)


def watched(kernel: Callable[..., Any], *args: Any) -> Library:
    """Call a C++ kernel and return its library, which has counted the call's chunks and loads."""
    kernels.last_called.clear()
    kernel(*args)
    if not kernels.last_called:
        raise CheckFailed(Finding(Kind.VALUES, "no C++ kernel was called"))
    return kernels.last_called[0]


def costs_at_most(program: Callable[..., mx.array], *args: Any, seed: int, **enough: int) -> None:
    """Check that a program's Metal kernels cost `enough` at most: "moved" bytes, "bank_conflicts", "barriers"."""
    case, size = describe(inspect.signature(program).bind(*args).arguments, seed, args[0].dtype)
    counts = costs(program, *args, case=case)
    for name, most in enough.items():
        if counts[name] > most:
            headline = WORDS[name].format(counts[name], most, times=counts[name] / max(most, 1))
            raise CheckFailed(Finding(Kind.COSTS, headline, ("counted by the simulator",), case, size))


def costs(program: Callable[..., mx.array], *args: Any, case: str = "") -> dict[str, int]:
    """Return what a program's kernels do on some inputs, under the names of `costs_at_most`, and two more.

    These are "read", the bytes that are read from device memory, and "matrix_products".
    """
    with counted() as launches:
        computed(program, case, *args)
    more = {"read": sum(each.device_bytes_read for each in launches)}
    return sums(launches) | more | {"matrix_products": sum(each.matrix_products for each in launches)}


def sums(launches: Sequence[Counters]) -> dict[str, int]:
    """Return what some launches cost together, under the names of `costs_at_most`."""
    return {
        "moved": LINE * sum(each.device_transactions for each in launches),
        "bank_conflicts": sum(each.bank_conflicts for each in launches),
        "barriers": sum(each.barriers for each in launches),
    }


def with_counts(program: Callable[..., mx.array]) -> Callable[..., tuple[mx.array, dict[str, int]]]:
    """Return a function that returns the result and the kernels' counts, once per input; a fault is a RuntimeError."""
    known: dict[bytes, tuple[str, mx.array, dict[str, int]]] = {}

    def counting(*args: Any, **kwargs: Any) -> tuple[mx.array, dict[str, int]]:
        key = key_of(args, kwargs)
        if key not in known:
            fault, result = "", mx.array(0)
            with counted() as launches:
                try:
                    result = program(*args, **kwargs)
                except KernelFault as error:
                    fault = str(error)
            known[key] = fault, result, sums(launches)
        fault, result, counts = known[key]
        if fault:
            raise RuntimeError(fault)
        return mx.array(result), dict(counts)

    return counting


def moved(program: Callable[..., mx.array], *args: Any, enough: int) -> mx.array:
    """Return, for a probe, how many times `enough` bytes a program's kernels move, to a twentieth; 1 if no more."""
    return mx.array(max(1.0, round(20 * costs(program, *args)["moved"] / enough) / 20))
