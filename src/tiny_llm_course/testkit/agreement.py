"""Compare a program with a reference formula: the basis of every grade."""

import inspect
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

import mlx.core as mx
import numpy as np

from ..course.findings import CheckFailed, Finding, Kind
from .again import Built, backwards, non_contiguous
from .cases import describe, dtype_word, noted, shape_words
from .errors import course_fault
from .memo import memoized
from .relations import of_arrays
from .rounding import EPSILON, Array64, Perturbing, Round, allowed_distance, exact, to_float64
from .sizes import SweepCase


def agrees(
    function: Callable[..., Any],
    formula: Callable[..., Array64],
    *args: Any,
    seed: int | SweepCase,
    expected: Array64 | None = None,
    dtype: mx.Dtype | None = None,
    fields: Sequence[str] = (),
    **kwargs: Any,
) -> None:
    """Check that `function(*args, **kwargs)` returns what the formula returns, in the right dtype.

    In float32, repeat the call: a second time, with inputs that are not contiguous, and, for a `Built` program, on an
    object that has been called with other inputs, beside another object with other weights.

    Args:
        formula: float64 NumPy, with a parameter `r` (see `rounding`). The failing case is described with its
            parameter names; MLX arrays reach it as float64.
        seed: of the inputs, for the description. The cases of a sweep over many sizes are computed only once.
        expected: the answer of another oracle, compared with in place of the formula's.
        dtype: of the result, if it is not the first argument's.
        fields: names of the elements of a result that stands for an object, as "median" of a Timing.
    """
    # Copies: what a program does to its lists must not reach the next test.
    args = tuple(deepcopy(v) if isinstance(v, list) else v for v in args)
    bound = inspect.signature(formula).bind(*args, **kwargs)
    dtype = args[0].dtype if dtype is None else dtype
    once = isinstance(seed, SweepCase) and seed.of_sizes
    case, size = describe(bound.arguments, seed.seed if isinstance(seed, SweepCase) else seed, dtype)
    values = {name: to_float64(v) for name, v in bound.arguments.items() if isinstance(v, mx.array)}
    lists = {name: deepcopy(v) for name, v in bound.arguments.items() if isinstance(v, list)}
    floats = {name for name in values if mx.issubdtype(bound.arguments[name].dtype, mx.floating)}

    def at(r: Round) -> Array64:
        shake = r if isinstance(r, Perturbing) else exact
        given = {name: shake(v) if name in floats else v for name, v in values.items()}
        positional = [given.get(name, v) for name, v in zip(bound.arguments, bound.args, strict=False)]
        named = {name: given.get(name, v) for name, v in bound.kwargs.items()}
        with np.errstate(all="ignore"):
            return formula(*positional, **named, r=r)

    def by_formula() -> tuple[Array64, float | Array64]:
        answer = at(exact)
        return answer, allowed_distance(at, answer, dtype, closely=not once)

    try:
        answer, allowed = memoized(by_formula, formula, dtype, once, bound.arguments)
    except Exception as error:
        raise CheckFailed(course_fault(error, case)) from error
    wanted = answer if expected is None else expected
    kept = filtered(next(iter(values.values()), None), wanted)

    def check(run: Callable[..., Any], which: str = "", *inputs: Any, **named: Any) -> None:
        call = f"{case}{which and ', '}{which}"
        actual = computed(run, call, *inputs, **named)
        swept = isinstance(seed, SweepCase)
        compare(actual, wanted, dtype, allowed, call, size, bool(which), kept, swept, fields)

    run: Callable[..., Any] = function
    if isinstance(function, Built):
        run = built = computed(function.used, case, *args, **kwargs)
        check(built)
    else:
        check(function, "", *args, **kwargs)
    _unchanged(bound.arguments, {**lists, **values}, case, size)
    if dtype != mx.float32 or once:
        return
    if isinstance(function, Built):
        others = {name: backwards(v) for name, v in bound.arguments.items()}
        fresh = computed(function.used(*args, **kwargs), case, **others)
        if isinstance(fresh, mx.array):
            by_new = to_float64(fresh)
            close = 4 * EPSILON[dtype] * float(np.abs(by_new).max(initial=0.0, where=np.isfinite(by_new)))
            call = f"{case}, an object that was called before against a new one, both on reversed inputs"
            compare(computed(built, call, **others), by_new, fresh.dtype, close, call, size)
        computed(function, case, *map(backwards, args), **{name: backwards(v) for name, v in kwargs.items()})
        check(run, "the same object called again, after another object with other weights")
    else:
        check(run, "the second call with the same inputs", *args, **kwargs)
    named = {name: non_contiguous(v) for name, v in kwargs.items()}
    check(function, "inputs that are not contiguous", *map(non_contiguous, args), **named)


def computed(run: Callable[..., Any], case: str, *args: Any, **kwargs: Any) -> Any:
    """Run the learner's program; attach the case to an exception."""
    with noted(case):
        actual = run(*args, **kwargs)
        if isinstance(actual, mx.array):
            mx.eval(actual)  # here, so that an exception of MLX's lazy evaluation belongs to this case
    return actual


def _unchanged(arguments: dict[str, Any], before: dict[str, Array64 | list[Any]], case: str, size: int) -> None:
    for name, items in before.items():
        now = arguments[name]
        if isinstance(items, list) and now != items:
            now[:] = items  # `case` shows the learner the original
            line = "append, sort and x[...] = change a list in place, for every reference to it"
        elif not isinstance(items, list) and not np.array_equal(items, to_float64(now), equal_nan=True):
            line = "-=, +=, *=, /= and x[...] = change an MLX array in place, for every reference to it"
        else:
            continue
        raise CheckFailed(Finding(Kind.INPUT_CHANGED, f"the caller's `{name}` was changed", (line,), case, size))


def filtered(x: Array64 | None, expected: Array64) -> bool:
    """Return whether `expected` keeps some elements of x and replaces the others by -inf."""
    if x is None or x.shape != expected.shape:
        return False
    dropped = np.isneginf(expected)
    return bool(dropped.any() and (dropped | (x == expected)).all())


def compare(
    actual: Any,
    expected: Array64,
    dtype: mx.Dtype,
    allowed: float | Array64,
    case: str,
    size: int,
    indirect: bool = True,  # compared with the learner's own program, not with an oracle
    keeps: bool = False,  # some elements are kept, the others set to -inf: report a wrong choice as such
    swept: bool = False,
    fields: Sequence[str] = (),
) -> None:
    """Check type, shape, dtype, NaN and infinity, then values within `allowed`; raise the first failure."""

    def fail(kind: Kind, headline: str, *lines: str) -> None:
        if kind not in (Kind.TYPE, Kind.DTYPE) and not fields:
            found = of_arrays(to_float64(actual), expected, float(np.max(allowed, initial=0.0)), dtype)
            lines += (f"compared  {found}",) * bool(found)
        raise CheckFailed(Finding(kind, headline, lines, case, size, indirect=indirect, swept=swept))

    if type(actual) is not mx.array:  # not isinstance: a subclass could override shape, dtype and ==
        what = f"{type(actual).__module__}.{type(actual).__qualname__}".removeprefix("builtins.")
        fail(Kind.TYPE, f"returned {what}, expected an mx.array")
    if actual.shape != expected.shape:
        lines = (f"expected  {shape_words(expected.shape)}", f"got       {shape_words(actual.shape)}")
        fail(Kind.SHAPE, "wrong shape", *lines)
    if actual.dtype != dtype:
        fail(Kind.DTYPE, "wrong dtype", f"expected  {dtype_word(dtype)}", f"got       {dtype_word(actual.dtype)}")
    numbers = to_float64(actual)
    same = (numbers == expected) | (np.isnan(numbers) & np.isnan(expected))  # inf - inf would be NaN
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(numbers - expected))
    wrong = ~same & ~(distance <= allowed)  # "not at most", so that a NaN distance is wrong
    if not wrong.any():
        return

    def tell(kind: Kind, what: str, which: np.ndarray[Any, Any], where: str) -> None:
        worst = np.unravel_index(int(np.argmax(which)), expected.shape)
        place = fields[int(worst[0])] if fields else f"[{', '.join(str(int(i)) for i in worst)}]"
        wanted, got = float(expected[worst]), float(numbers[worst])
        digits = next((d for d in range(4, 17) if f"{wanted:.{d}g}" != f"{got:.{d}g}"), 17)
        alike = f"{wanted:.3g}" == f"{got:.3g}"  # then print the same number of digits of both, trailing zeros included
        lines = tuple(f"{name:<10}{x:{'#' * alike}.{digits}g}" for name, x in (("expected", wanted), ("got", got)))
        fail(kind, f"{what} of {wrong.size} {'fields' if fields else 'elements'}, {where} at {place}", *lines)

    dropped = np.isneginf(numbers) & np.isfinite(expected)
    not_dropped = np.isfinite(numbers) & np.isneginf(expected)
    not_finite = ~same & ~np.isfinite(numbers)
    if keeps and dropped.any() and np.array_equal(not_finite, dropped):
        tell(Kind.VALUES, f"set to -inf but should be kept: {int(dropped.sum())}", dropped, "first")
    if not_finite.any():
        tell(Kind.NAN, f"NaN or infinity in {int(not_finite.sum())}", not_finite, "first")
    if keeps and not_dropped.any():
        tell(Kind.VALUES, f"kept but should be set to -inf: {int(not_dropped.sum())}", not_dropped, "first")
    tell(Kind.VALUES, f"values differ in {int(wrong.sum())}", np.where(wrong, distance, -1.0), "largest error")
