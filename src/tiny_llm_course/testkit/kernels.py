"""For tests of kernels: which build of them a check runs, and what they may cost.

A kernel in C++ that a check calls is the checked build, which says at which line it touches memory that it must not,
and lets the chunks of a loop run one after another. `fast` makes of a kernel's function one that runs the fast build,
all threads included, once the checked build has let it through: for sweeps, whose sizes are large.

A kernel in Metal is run by the simulator, which counts what it does, the same on every machine. `costs_at_most` holds a
kernel to that; `moved` is for probes, where a right result comes at too high a cost; `with_counts` is for a learner's
check.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import mlx.core as mx

from metal_simulator import Counters

from ..course.findings import CheckFailed, Finding, Kind
from ..programs import kernels
from ..programs.launches import counted
from ..programs.parts import KernelFault
from .agreement import computed
from .cases import describe
from .remembered import key_of

LINE = 64  # bytes of device memory that are moved together

# What is counted, in words: the first number is the kernel's, the second is enough.
WORDS = {
    "moved": "your kernel moves {times:.1f} times the bytes that it needs to: {0:,}, where {1:,} are enough",
    "bank_conflicts": "your kernel's threads wait {0:,} times for a bank of threadgroup memory, where {1:,} is enough",
    "barriers": "your kernel's threadgroups wait at {0:,} barriers, where {1:,} are enough",
}


def fast(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, on the build that an engine runs."""

    @wraps(kernel)
    def faster(*args: Any, **kwargs: Any) -> Any:
        with kernels.fast():
            return kernel(*args, **kwargs)

    return faster


def chunks_of(kernel: Callable[..., Any], *args: Any) -> int:
    """Into how many chunks a kernel divides its largest loop; below 2, one core does all of it."""
    kernel(*args)
    return kernels.chunks()


def costs_at_most(program: Callable[..., mx.array], *args: Any, seed: int, **enough: int) -> None:
    """Check what a program's kernels do on some inputs.

    Args:
        program: a function that launches kernels in Metal.
        args: the inputs, an array first.
        seed: what they were drawn with.
        enough: of "moved", bytes of device memory in lines of 64; of "bank_conflicts"; of "barriers".
    """
    case, size = describe(inspect.signature(program).bind(*args).arguments, seed, args[0].dtype)
    counts = costs(program, *args, case=case)
    for name, most in enough.items():
        if counts[name] > most:
            headline = WORDS[name].format(counts[name], most, times=counts[name] / max(most, 1))
            raise CheckFailed(Finding(Kind.COSTS, headline, ("counted by the simulator",), case, size))


def costs(program: Callable[..., mx.array], *args: Any, case: str = "") -> dict[str, int]:
    """What a program's kernels do on some inputs, under the names of `costs_at_most`."""
    with counted() as launches:
        computed(program, case, *args)
    return _sums(launches)


def _sums(launches: Sequence[Counters]) -> dict[str, int]:
    return {
        "moved": LINE * sum(each.device_transactions for each in launches),
        "bank_conflicts": sum(each.bank_conflicts for each in launches),
        "barriers": sum(each.barriers for each in launches),
    }


def with_counts(program: Callable[..., mx.array]) -> Callable[..., tuple[mx.array, dict[str, int]]]:
    """The same function, which gives its result and, under the names of `costs_at_most`, what its kernels do.

    A fault is a RuntimeError. A kernel does on the same inputs what it has done before, and is not run again.
    """
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
            known[key] = fault, result, _sums(launches)
        fault, result, counts = known[key]
        if fault:
            raise RuntimeError(fault)
        return mx.array(result), dict(counts)

    return counting


def moved(program: Callable[..., mx.array], *args: Any, enough: int) -> mx.array:
    """For a probe: how many times what is enough a program's kernels move on some inputs, to a twentieth; 1 if no more.

    Two programs that move too much are alike only if they move as much: there are many ways to do so.
    """
    return mx.array(max(1.0, round(20 * costs(program, *args)["moved"] / enough) / 20))
