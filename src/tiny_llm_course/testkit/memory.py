"""How much memory a program takes, for what is promised not to be copied."""

import tracemalloc
from collections.abc import Callable

import mlx.core as mx

from ..course.findings import CheckFailed, Finding, Kind


def most_at_once(run: Callable[[], mx.array]) -> int:
    """The bytes that a call holds at its peak, beyond what was there: MLX's, and Python's with NumPy's.

    MLX counts what its allocator has given out on any device (`mx.get_peak_memory`), not what it keeps for later.
    """
    mx.synchronize()
    before = mx.get_active_memory()
    mx.reset_peak_memory()
    tracemalloc.start()
    try:
        mx.eval(run())
        mx.synchronize()
        python = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return mx.get_peak_memory() - before + python


def copies_none_of(run: Callable[[], mx.array], names: str, *arrays: mx.array, case: str) -> None:
    """Check that a call takes at most twice the memory of some arrays: no room for a copy of each for many heads.

    Args:
        run: the call.
        names: of the arrays, in words: "key and value".
        arrays: what must not be copied many times.
        case: the inputs in words.
    """
    held = sum(array.nbytes for array in arrays)
    taken = most_at_once(run)
    if taken > 2 * held:
        headline = f"{names} hold {_megabytes(held)}, and your code takes {_megabytes(taken)} more: it makes copies"
        size = sum(array.size for array in arrays)
        raise CheckFailed(Finding(Kind.VALUES, headline, (f"at most   {_megabytes(2 * held)}",), case, size))


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
