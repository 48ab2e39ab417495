"""The comparison with a formula, which every grade rests on."""

import inspect
from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from ..course.findings import CheckFailed, Finding, Kind
from .cases import CASE_NOTE, describe, dtype_word, shape_words
from .rounding import Array64, Round, exact, rounding, to_float64, tolerance


def agrees(
    function: Callable[..., Any],
    formula: Callable[..., Array64],
    *args: Any,
    seed: int,
    expected: Array64 | None = None,
    dtype: mx.Dtype | None = None,
    **kwargs: Any,
) -> None:
    """Check that `function(*args, **kwargs)` gives what the formula gives, in the right dtype.

    Args:
        function: the learner's program.
        formula: the same in float64 NumPy, with a parameter `r` as module `rounding` says. Its parameter names are the
            words in which a failing case is described.
        args, kwargs: the inputs; MLX arrays reach the formula as float64.
        seed: what the inputs were drawn with, for the description.
        expected: another oracle's answer, to compare with in place of the formula's.
        dtype: of the result, if it is not the first argument's.
    """
    bound = inspect.signature(formula).bind(*args, **kwargs)
    dtype = args[0].dtype if dtype is None else dtype
    case, size = describe(bound.arguments, seed, dtype)

    def at(r: Round) -> Array64:
        a, k = ([_as_float64(v) for v in bound.args], {name: _as_float64(v) for name, v in bound.kwargs.items()})
        with np.errstate(all="ignore"):
            return formula(*a, **k, r=r)

    by_formula = at(exact)
    allowed = tolerance(by_formula, at(rounding(dtype)), dtype)
    before = {name: _as_float64(v) for name, v in bound.arguments.items() if isinstance(v, mx.array)}
    try:
        actual = function(*args, **kwargs)
        if isinstance(actual, mx.array):
            mx.eval(actual)  # here, so that what MLX raises only now belongs to this case
    except Exception as error:
        error.add_note(f"{CASE_NOTE}{case}")
        raise
    compare(actual, by_formula if expected is None else expected, dtype, allowed, case, size, indirect=False)
    for name, numbers in before.items():
        if not np.array_equal(numbers, to_float64(bound.arguments[name]), equal_nan=True):
            headline = f"the caller's `{name}` was changed"
            line = "-=, +=, *=, /= and x[...] = change an MLX array in place, for everyone who holds it"
            raise CheckFailed(Finding(Kind.INPUT_CHANGED, headline, (line,), case, size))


def compare(
    actual: Any, expected: Array64, dtype: mx.Dtype, allowed: float, case: str, size: int, indirect: bool = True
) -> None:
    """Type, shape, dtype, NaN and infinity, values within `allowed`: what is wrong first in this order is raised.

    Properties call it themselves; `agrees` calls it with an oracle's answer, which is not `indirect`.
    """

    def fail(kind: Kind, headline: str, *lines: str) -> None:
        raise CheckFailed(Finding(kind, headline, lines, case, size, indirect=indirect))

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
    strange = ~same & ~np.isfinite(numbers)
    wrong = ~same & ~(distance <= allowed)  # "not at most", so that a NaN distance is wrong
    if not wrong.any():
        return
    worst = np.unravel_index(int(np.argmax(strange if strange.any() else distance)), expected.shape)
    where = f"at [{', '.join(str(int(i)) for i in worst)}]"
    wanted, got = float(expected[worst]), float(numbers[worst])
    digits = next((d for d in range(4, 17) if f"{wanted:.{d}g}" != f"{got:.{d}g}"), 17)
    lines = (f"expected  {wanted:.{digits}g}", f"got       {got:.{digits}g}")
    if strange.any():
        fail(Kind.NAN, f"NaN or infinity in {int(strange.sum())} of {wrong.size} elements, first {where}", *lines)
    fail(Kind.VALUES, f"values differ in {int(wrong.sum())} of {wrong.size} elements, furthest {where}", *lines)


def _as_float64(v: Any) -> Any:
    return to_float64(v) if isinstance(v, mx.array) else v
