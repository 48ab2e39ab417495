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
        _fail(headline, 2 * held, case, sum(array.size for array in arrays))


def holds_less(run: Callable[[], mx.array], most: int, than: str, *, case: str) -> None:
    """Check that a call holds less than so many bytes at its peak.

    Args:
        run: the call.
        most: bytes.
        than: what takes so many, in words: "two bytes for each score".
        case: the inputs in words.
    """
    taken = most_at_once(run)
    if taken >= most:
        _fail(f"your code holds {_megabytes(taken)} at its peak, which is not less than {than}", most, case, most)


def _fail(headline: str, most: int, case: str, size: int) -> None:
    raise CheckFailed(Finding(Kind.VALUES, headline, (f"at most   {_megabytes(most)}",), case, size))


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
