"""How much memory a program takes, for arrays that must not be copied."""

import tracemalloc
from collections.abc import Callable

import mlx.core as mx

from ..course.findings import Kind
from .errors import fail


def peak_bytes(run: Callable[[], mx.array]) -> int:
    """Return the bytes that a call allocates at its peak: MLX's, on any device, plus Python's with NumPy's."""
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
    """Check that a call allocates at most twice the bytes of the `names` arrays: too few for a copy per head."""
    held = sum(array.nbytes for array in arrays)
    taken = peak_bytes(run)
    if taken > 2 * held:
        headline = f"{names} take {_megabytes(held)}, and your code allocates {_megabytes(taken)} more: it makes copies"
        fail(Kind.VALUES, headline, case, f"at most   {_megabytes(2 * held)}", size=sum(a.size for a in arrays))


def holds_less(run: Callable[[], mx.array], most: int, than: str, *, case: str) -> None:
    """Check that a call's peak is below `most` bytes; `than` names what takes that much: "two bytes for each score"."""
    taken = peak_bytes(run)
    if taken >= most:
        headline = f"your code's peak memory is {_megabytes(taken)}, which is not below {than}"
        fail(Kind.VALUES, headline, case, f"at most   {_megabytes(most)}", size=most)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
