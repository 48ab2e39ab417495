"""How a model that has been built keeps its weights, seen from the arrays that it holds."""

import functools
from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any, NamedTuple

import mlx.core as mx


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
    packed = next((x for x in tables if x.dtype == mx.uint32), None)
    scales = next((x for x in tables if mx.issubdtype(x.dtype, mx.floating) and x.shape[1] < hidden_size), None)
    if packed is None or scales is None:
        return Kept(size, None, 64, size)
    return Kept(size, 32 * packed.shape[1] // hidden_size, hidden_size // scales.shape[1], scales.itemsize)


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
