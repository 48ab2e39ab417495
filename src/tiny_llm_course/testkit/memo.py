"""Compute a formula's answer once where a proof grades dozens of programs on the same inputs."""

import contextlib
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import mlx.core as mx
import numpy as np

T = TypeVar("T")
PLAIN = (int, float, str, slice, type(None), mx.Dtype)

# A list, as the guard restores rebound names of this module after each test.
_kept: list[dict[bytes, Any]] = []


@contextlib.contextmanager
def memoizing() -> Iterator[None]:
    """Keep what `memoized` computes while the block runs."""
    _kept.append({})
    try:
        yield
    finally:
        _kept.pop()


def memoized(compute: Callable[[], T], *of: Any) -> T:
    """Return `compute()`, which must depend on nothing but `of`: functions, plain values and arrays."""
    if not _kept:
        return compute()
    try:
        key = key_of(*of)
    except (TypeError, ValueError, RecursionError):  # a variable without a value, or the function itself
        return compute()
    if key not in _kept[-1]:
        _kept[-1][key] = compute()
    found: T = _kept[-1][key]
    return found


def key_of(*of: Any) -> bytes:
    """Return a hash of functions, plain values and arrays; raise TypeError for anything else."""
    digest = hashlib.blake2b(digest_size=16)
    _add(digest, of)
    return digest.digest()


def _add(digest: "hashlib.blake2b", value: Any) -> None:
    digest.update(type(value).__name__.encode() + b"\0")
    if isinstance(value, mx.array):
        digest.update(repr((value.shape, value.dtype)).encode())
        digest.update(np.array(value.astype(mx.float32) if value.dtype == mx.bfloat16 else value).tobytes())
    elif isinstance(value, Mapping):
        _add(digest, tuple(value.items()))
    elif isinstance(value, list | tuple):
        digest.update(b"%d" % len(value))
        for each in value:
            _add(digest, each)
    elif isinstance(value, PLAIN):
        digest.update(repr(value).encode())
    elif isinstance(value, np.ndarray):
        _add(digest, (value.shape, str(value.dtype), value.tobytes().hex()))
    elif inspect.isfunction(value):
        digest.update(f"{value.__module__} {value.__qualname__} {value.__code__.co_firstlineno}".encode())
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        _add(digest, (value.__defaults__, value.__kwdefaults__, cells))
    else:
        raise TypeError(type(value))
