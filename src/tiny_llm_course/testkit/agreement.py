"""The comparison with a formula, which every grade rests on."""

import inspect
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import mlx.core as mx
import numpy as np

from ..course.findings import CheckFailed, Finding, Kind
from .again import Built, backwards, spread_out
from .cases import CASE_NOTE, describe, dtype_word, shape_words
from .errors import course_fault
from .remembered import remembered
from .rounding import EPSILON, Array64, Round, Shaking, allowed_distance, exact, to_float64
from .sizes import Drawn


def agrees(
    function: Callable[..., Any],
    formula: Callable[..., Array64],
    *args: Any,
    seed: int | Drawn,
    expected: Array64 | None = None,
    dtype: mx.Dtype | None = None,
    **kwargs: Any,
) -> None:
    """Check that `function(*args, **kwargs)` gives what the formula gives, in the right dtype.

    In float32 also that it gives it again: the same call a second time, with inputs that are not contiguous, and, of a
    `Built` program, by an object that has been called on other inputs, beside another object with other weights.

    Args:
        function: the learner's program.
        formula: the same in float64 NumPy, with a parameter `r` as module `rounding` says. Its parameter names are the
            words in which a failing case is described.
        args, kwargs: the inputs; MLX arrays reach the formula as float64.
        seed: what the inputs were drawn with, for the description. A case of a sweep's many sizes is computed once.
        expected: another oracle's answer, to compare with in place of the formula's.
        dtype: of the result, if it is not the first argument's.
    """
    # Lists of its own: what a program does to them must not reach the next test.
    args = tuple(deepcopy(v) if isinstance(v, list) else v for v in args)
    bound = inspect.signature(formula).bind(*args, **kwargs)
    dtype = args[0].dtype if dtype is None else dtype
    once = isinstance(seed, Drawn) and seed.of_sizes
    case, size = describe(bound.arguments, seed.seed if isinstance(seed, Drawn) else seed, dtype)
    values = {name: to_float64(v) for name, v in bound.arguments.items() if isinstance(v, mx.array)}
    lists = {name: deepcopy(v) for name, v in bound.arguments.items() if isinstance(v, list)}
    floats = {name for name in values if mx.issubdtype(bound.arguments[name].dtype, mx.floating)}

    def at(r: Round) -> Array64:
        shake = r if isinstance(r, Shaking) else exact
        given = {name: shake(v) if name in floats else v for name, v in values.items()}
        positional = [given.get(name, v) for name, v in zip(bound.arguments, bound.args, strict=False)]
        named = {name: given.get(name, v) for name, v in bound.kwargs.items()}
        with np.errstate(all="ignore"):
            return formula(*positional, **named, r=r)

    def by_formula() -> tuple[Array64, float | Array64]:
        """What the formula gives, and how far from it an answer may be."""
        answer = at(exact)
        return answer, allowed_distance(at, answer, dtype, closely=not once)

    try:
        answer, allowed = remembered(by_formula, formula, dtype, once, bound.arguments)
    except Exception as error:
        raise CheckFailed(course_fault(error, case)) from error
    wanted = answer if expected is None else expected
    kept = filtered(next(iter(values.values()), None), wanted)

    def check(run: Callable[..., Any], which: str = "", *inputs: Any, **named: Any) -> None:
        told = f"{case}{which and ', '}{which}"
        actual = computed(run, told, *inputs, **named)
        compare(actual, wanted, dtype, allowed, told, size, bool(which), kept, isinstance(seed, Drawn))

    run: Callable[..., Any] = function
    if isinstance(function, Built):
        run = built = computed(function.used, case, *args, **kwargs)
        check(built)
    else:
        check(function, "", *args, **kwargs)
    _unchanged(bound.arguments, values, lists, case, size)
    if dtype != mx.float32 or once:
        return
    if isinstance(function, Built):
        others = {name: backwards(v) for name, v in bound.arguments.items()}
        fresh = computed(function.used(*args, **kwargs), case, **others)
        if isinstance(fresh, mx.array):
            by_new = to_float64(fresh)
            close = 4 * EPSILON[dtype] * float(np.abs(by_new).max(initial=0.0, where=np.isfinite(by_new)))
            told = f"{case}, an object that was called before, against a new one, both on the inputs backwards"
            compare(computed(built, told, **others), by_new, fresh.dtype, close, told, size)
        computed(function, case, *map(backwards, args), **{name: backwards(v) for name, v in kwargs.items()})
        check(run, "the object's call with the same inputs once more, after another object's with other weights")
    else:
        check(run, "the second call with the same inputs", *args, **kwargs)
    apart = [spread_out(v) for v in args], {name: spread_out(v) for name, v in kwargs.items()}
    check(function, "inputs that are not contiguous", *apart[0], **apart[1])


def computed(run: Callable[..., Any], case: str, *args: Any, **kwargs: Any) -> Any:
    """What the learner's program gives; an exception carries the case."""
    try:
        actual = run(*args, **kwargs)
        if isinstance(actual, mx.array):
            mx.eval(actual)  # here, so that what MLX raises only now belongs to this case
    except Exception as error:
        error.add_note(f"{CASE_NOTE}{case}")
        raise
    return actual


def _unchanged(
    arguments: dict[str, Any], before: dict[str, Array64], lists: dict[str, list[Any]], case: str, size: int
) -> None:
    """The caller's arrays and lists hold what they held before."""
    for name, items in lists.items():
        if arguments[name] != items:
            arguments[name][:] = items  # as a learner will look at the case
            line = "append, sort and x[...] = change a list in place, for everyone who holds it"
            raise CheckFailed(Finding(Kind.INPUT_CHANGED, f"the caller's `{name}` was changed", (line,), case, size))
    for name, numbers in before.items():
        if not np.array_equal(numbers, to_float64(arguments[name]), equal_nan=True):
            headline = f"the caller's `{name}` was changed"
            line = "-=, +=, *=, /= and x[...] = change an MLX array in place, for everyone who holds it"
            raise CheckFailed(Finding(Kind.INPUT_CHANGED, headline, (line,), case, size))


def filtered(x: Array64 | None, expected: Array64) -> bool:
    """Whether what is expected of x is a choice: each number stays, or becomes -inf, and both happen."""
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
    indirect: bool = True,
    keeps: bool = False,
    swept: bool = False,
) -> None:
    """Type, shape, dtype, NaN and infinity, values within `allowed`: what is wrong first in this order is raised.

    Properties call it themselves; `agrees` calls it with an oracle's answer, which is not `indirect`, perhaps for a
    case that is `swept`. Where a program
    `keeps` some numbers and makes the others -inf, a wrong choice is told as that.
    """

    def fail(kind: Kind, headline: str, *lines: str) -> None:
        raise CheckFailed(Finding(kind, headline, lines, case, size, indirect=indirect, swept=swept))

    if type(actual) is not mx.array:  # a subclass could say anything about itself; so below, too
        what = f"{type(actual).__module__}.{type(actual).__qualname__}".removeprefix("builtins.")
        fail(Kind.TYPE, f"returned {what}, expected an mx.array")
    if actual.shape != expected.shape:
        lines = (f"expected  {shape_words(expected.shape)}", f"got       {shape_words(actual.shape)}")
        fail(Kind.SHAPE, "wrong shape", *lines)
    if actual.dtype != dtype:
        fail(Kind.DTYPE, "wrong dtype", f"expected  {dtype_word(dtype)}", f"got       {dtype_word(actual.dtype)}")
    numbers = to_float64(actual)
    same = (numbers == expected) | (np.isnan(numbers) & np.isnan(expected))  # equal infinities have no distance
    with np.errstate(invalid="ignore"):
        distance = np.where(same, 0.0, np.abs(numbers - expected))
    wrong = ~same & ~(distance <= allowed)  # "not at most", so that a NaN distance is wrong
    if not wrong.any():
        return

    def tell(kind: Kind, what: str, which: np.ndarray[Any, Any], where: str) -> None:
        """Of the elements in question the one with the largest number in `which`."""
        worst = np.unravel_index(int(np.argmax(which)), expected.shape)
        place = f"[{', '.join(str(int(i)) for i in worst)}]"
        wanted, got = float(expected[worst]), float(numbers[worst])
        digits = next((d for d in range(4, 17) if f"{wanted:.{d}g}" != f"{got:.{d}g}"), 17)
        alike = f"{wanted:.3g}" == f"{got:.3g}"  # then as many digits of both, also zeros at the end
        lines = tuple(f"{name:<10}{x:{'#' * alike}.{digits}g}" for name, x in (("expected", wanted), ("got", got)))
        fail(kind, f"{what} of {wrong.size} elements, {where} at {place}", *lines)

    dropped = np.isneginf(numbers) & np.isfinite(expected)
    spared = np.isfinite(numbers) & np.isneginf(expected)
    strange = ~same & ~np.isfinite(numbers)
    if keeps and dropped.any() and np.array_equal(strange, dropped):
        tell(Kind.VALUES, f"ruled out (-inf) that should stay: {int(dropped.sum())}", dropped, "first")
    if strange.any():
        tell(Kind.NAN, f"NaN or infinity in {int(strange.sum())}", strange, "first")
    if keeps and spared.any():
        tell(Kind.VALUES, f"left that should be ruled out (-inf): {int(spared.sum())}", spared, "first")
    tell(Kind.VALUES, f"values differ in {int(wrong.sum())}", np.where(wrong, distance, -1.0), "furthest")
