"""What a wrong result has to do with the expected one: another order, a factor, a part of it, or one place.

Each sentence is a fact about the two, computed from them. Nothing is said of results in which it may be chance.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Equal = Callable[[Any, Any], bool]
LARGEST = 100_000  # elements that are looked at
FEWEST = 4  # different numbers, of which something is said
SHOWN = 40  # characters of what is missing or too many
FAR = 100  # times smaller than the whole error must be what a relation leaves unexplained
NARROW = {mx.float16: 13, mx.bfloat16: 16}  # the last bits of a float32, which are zero after rounding to a dtype


def of_arrays(actual: Numbers, expected: Numbers, close: float, dtype: mx.Dtype) -> str:
    """Return a relation of a wrong array to the expected one; "" if none is found. Within `close`, numbers are equal.

    Both are float64; `dtype` is the one that both have as MLX arrays.
    """
    if max(actual.size, expected.size) > LARGEST or len(np.unique(expected.round(9))) < FEWEST:
        return ""

    if actual.shape == expected.shape:
        both = np.isfinite(actual) & np.isfinite(expected)
        errors = np.abs(actual[both] - expected[both])
        close = min(close, errors.max(initial=0.0) / FAR) if both.all() else close

    def equal(a: Numbers, b: Numbers) -> bool:
        return a.shape == b.shape and a.size > 0 and bool(np.allclose(a, b, rtol=1e-6, atol=close, equal_nan=True))

    with np.errstate(all="ignore"):
        if actual.shape == expected.shape:
            found = (
                _orders(actual, expected, equal),
                _sizes(actual, expected, equal),
                _rounding(actual, expected, dtype),
            )
            return next(itertools.chain(*found, _places(actual, expected, equal)), "")
        return next(itertools.chain(_axes(actual, expected, equal), _shapes(actual, expected, equal)), "")


def compared(actual: Any, expected: Any) -> list[str]:
    """Return, as a line of evidence if there is one, the relation of a wrong list, tuple or text."""
    alike = type(actual) is type(expected) and isinstance(expected, list | tuple | str)
    return [f"compared  {found}"] if alike and (found := of_lists(actual, expected)) else []


def of_lists(actual: Sequence[Any], expected: Sequence[Any]) -> str:
    """Return a relation of a wrong list or text to the expected one; "" if none is found."""
    if max(len(actual), len(expected)) > LARGEST or len({*map(repr, expected)}) < FEWEST:
        return ""
    if len(actual) != len(expected):
        return _of_parts(actual, expected, lambda a, b: bool(a == b))
    if actual == expected[::-1]:
        return "equals the expected one in reverse order"
    if sorted(map(repr, actual)) == sorted(map(repr, expected)):
        return "equals the expected one in another order"
    if all(type(each) is int for each in (*actual, *expected)):
        by, *others = {mine - theirs for mine, theirs in zip(actual, expected, strict=True)}
        return "" if others else f"each number is the expected one {_summand(by)}"
    return ""


def _axes(actual: Numbers, expected: Numbers, equal: Equal) -> Iterator[str]:
    """Yield in which order the axes are, if they are only swapped."""
    if actual.ndim == expected.ndim <= 5:
        for a, b in itertools.combinations(range(expected.ndim), 2):
            if min(expected.shape[a], expected.shape[b]) > 1 and equal(actual, expected.swapaxes(a, b)):
                yield f"equals the expected array with axes {a} and {b} swapped"
        for order in itertools.permutations(range(expected.ndim)):
            if order != (*range(expected.ndim),) and equal(actual, expected.transpose(order)):
                yield f"equals the expected array with its axes in the order {', '.join(map(str, order))}"


def _shapes(actual: Numbers, expected: Numbers, equal: Equal) -> Iterator[str]:
    """Yield what two arrays of different shapes have in common."""
    if equal(actual.squeeze(), expected.squeeze()):
        yield "holds the expected numbers: only axes of size 1 differ"
    if equal(actual.reshape(-1), expected.reshape(-1)):
        yield "holds the expected numbers in their order, with other axes"
    apart = [axis for axis, (a, b) in enumerate(zip(actual.shape, expected.shape, strict=False)) if a != b]
    if actual.ndim == expected.ndim and len(apart) == 1:
        (axis,) = apart
        if found := _of_parts(np.moveaxis(actual, axis, 0), np.moveaxis(expected, axis, 0), equal):
            yield f"along axis {axis}, it {found}"


def _orders(actual: Numbers, expected: Numbers, equal: Equal) -> Iterator[str]:
    """Yield how the expected numbers were moved."""
    yield from _axes(actual, expected, equal)
    for axis, length in enumerate(expected.shape):
        mine, theirs = (np.moveaxis(array, axis, 0) for array in (actual, expected))
        if equal(mine, theirs[::-1]) and length > 1:
            yield f"equals the expected array in reverse order along axis {axis}"
        for by in range(1, length // 2 + 1):
            places = f"{by} place{'s' * (by > 1)}"
            if theirs[by:].size >= FEWEST and not equal(theirs[by:], theirs[:-by]):
                if equal(mine[by:], theirs[:-by]):
                    yield f"along axis {axis}, the expected numbers are {places} too late"
                if equal(mine[:-by], theirs[by:]):
                    yield f"along axis {axis}, the expected numbers are {places} too early"
    if equal(np.sort(actual, axis=None), np.sort(expected, axis=None)):
        yield "holds the expected numbers in another order"


def _sizes(actual: Numbers, expected: Numbers, equal: Equal) -> Iterator[str]:
    """Yield a factor or a summand that all numbers have in common, or all with one index of an axis."""
    kept = np.isfinite(expected)
    if not np.array_equal(kept, np.isfinite(actual)):
        return
    for axis in (None, *range(expected.ndim)):
        rows = [np.where(kept, each, 0) for each in (actual, expected)]
        length = 1 if axis is None else expected.shape[axis]
        mine, theirs = (np.moveaxis(each, axis or 0, 0).reshape(length, -1) for each in rows)
        if mine.shape[1] < FEWEST or (axis is not None and length < 2):
            continue
        counted = np.moveaxis(kept, axis or 0, 0).reshape(mine.shape)
        factors = (mine * theirs).sum(1, keepdims=True) / (theirs * theirs).sum(1, keepdims=True)
        summands = (mine - theirs).sum(1, keepdims=True) / counted.sum(1, keepdims=True)
        where = (
            "each number is the expected one" if axis is None else f"each slice along axis {axis} is the expected one"
        )
        if equal(mine, factors * theirs) and not np.isclose(factors, 0).any() and not np.isclose(factors, 1).any():
            if axis is None:
                yield (
                    f"{where} with the opposite sign" if equal(mine, -theirs) else f"{where} times {factors[0, 0]:.4g}"
                )
            yield f"{where} times a factor, such as {factors[0, 0]:.4g}"
        elif equal(mine, theirs + summands * counted) and not np.isclose(summands, 0).any():
            by = summands[0, 0]
            yield f"{where} {_summand(by)}" if axis is None else f"{where} plus a number, such as {by:.4g}"


def _rounding(actual: Numbers, expected: Numbers, dtype: mx.Dtype) -> Iterator[str]:
    """Yield a narrower dtype that every number of a float32 result is one of."""
    for narrow, bits in NARROW.items() if dtype == mx.float32 and np.isfinite(actual).all() else ():
        rest = [each.astype(np.float32).view(np.uint32) % (1 << bits) != 0 for each in (actual, expected)]
        if not rest[0].any() and rest[1].mean() > 0.5 and (actual % 1 != 0).mean() > 0.5:
            yield f"each number is one that {str(narrow).rpartition('.')[2]} can hold, unlike the expected ones"


def _places(actual: Numbers, expected: Numbers, equal: Equal) -> Iterator[str]:
    """Yield the indices of one axis outside of which all is right."""
    found = []
    for axis, length in enumerate(expected.shape):
        pairs = zip(*(np.moveaxis(each, axis, 0) for each in (actual, expected)), strict=True)
        wrong = [i for i, (mine, theirs) in enumerate(pairs) if not equal(mine, theirs)]
        if 2 * len(wrong) <= length and wrong[-1] - wrong[0] == len(wrong) - 1 and expected.size >= 2 * FEWEST:
            which = f"at index {wrong[0]}" if len(wrong) == 1 else f"at indices {wrong[0]} to {wrong[-1]}"
            found.append((len(wrong) / length, f"wrong only {which} of axis {axis}, which has size {length}"))
    yield from [words for _, words in sorted(found)]


def _of_parts(actual: Any, expected: Any, equal: Equal) -> str:
    """Say which entries of a sequence are missing, or too many, if all others are the expected ones."""
    is_longer = len(actual) > len(expected)
    longer, shorter = (actual, expected) if is_longer else (expected, actual)
    short, extra = len(shorter), len(longer) - len(shorter)
    if getattr(shorter, "size", short) < FEWEST:
        return ""
    noun = ("character", "characters") if isinstance(actual, str) else ("entry", "entries")
    number = f"one {noun[0]}" if extra == 1 else f"{extra} {noun[1]}"
    for at in (short, *range(short)):
        if equal(longer[at + extra :], shorter[at:]) if at < short else equal(longer[:at], shorter):
            if at and at < short and not equal(longer[:at], shorter[:at]):
                continue
            where = "at the end" if at == short else "at the beginning" if at == 0 else f"at index {at}"
            shown = "" if isinstance(actual, np.ndarray) else f": {longer[at : at + extra]!a}"
            said = f"equals the expected one, with {number} {'more' if is_longer else 'missing'} {where}"
            return said + shown * (len(shown) <= SHOWN)
    return ""


def _summand(number: float) -> str:
    return f"{'plus' if number > 0 else 'minus'} {abs(number):.4g}"
