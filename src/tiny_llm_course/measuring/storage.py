"""How a model that has been built keeps its weights, seen from the arrays that it holds."""

import functools
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import mlx.core as mx

GROUP_SIZES = (32, 64, 128)


class Kept(NamedTuple):
    """What the accounting's Storage is made of, in its order."""

    size: int
    bits: int | None
    group_size: int
    scale_size: int


def kept(model: object, hidden_size: int, vocab_size: int) -> Kept:
    """The table of the embedding tells: it is in every model, and nothing else has as many rows."""
    held = list(arrays(model))
    vectors = [x for x in held if x.shape == (hidden_size,) and mx.issubdtype(x.dtype, mx.floating)]
    size = vectors[0].itemsize if vectors else 4
    tables = [x for x in held if x.ndim == 2 and len(x) == vocab_size]
    at = next((i for i, x in enumerate(tables) if x.dtype == mx.uint32), None)
    if at is None:
        return Kept(size, None, 64, size)
    # RoPE's tables may have as many rows; scales are held where their words are.
    scales = min(
        (i for i, x in enumerate(tables) if hidden_size in [x.shape[1] * group_size for group_size in GROUP_SIZES]),
        key=lambda i: abs(i - at),
    )
    bits = 32 * tables[at].shape[1] // hidden_size
    return Kept(size, bits, hidden_size // tables[scales].shape[1], tables[scales].itemsize)


def arrays(model: object) -> Iterator[mx.array]:
    """All arrays that an object holds, in its attributes, lists, dicts, and in functions that were made for it."""
    seen: set[int] = set()
    waiting: list[Any] = [model]
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        if isinstance(each, mx.array):
            yield each
        elif isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list | tuple | set):
            waiting += each
        elif isinstance(each, functools.partial):
            waiting += [each.func, each.args, each.keywords]
        elif isinstance(each, MethodType):
            waiting.append(each.__self__)
        elif isinstance(each, FunctionType):
            waiting += [cell.cell_contents for cell in each.__closure__ or () if _is_filled(cell)]
            waiting.append(each.__defaults__)
        elif hasattr(each, "__dict__") and not hasattr(each, "__path__") and not hasattr(each, "__spec__"):
            waiting.append(vars(each))


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
