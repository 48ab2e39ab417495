"""What the graded tests are written with: seeded inputs, the comparison with a formula, and checks of errors."""

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import numpy as np

from .findings import CheckFailed, Finding, Kind
from .packages import NotImportable
from .rounding import Array64, Round, exact, rounding, to_float64, tolerance

# How a failing case is attached to an exception that is not ours.
CASE_NOTE = "case: "

DTYPES = [mx.float32, mx.float16, mx.bfloat16]


def normals(seed: int, dtype: mx.Dtype = mx.float32) -> Callable[..., mx.array]:
    """A source of signed, normally distributed arrays: `draw(3, 4, spread=0.5)`. Same seed, same numbers."""
    generator = np.random.default_rng(seed)

    def draw(*shape: int, spread: float = 1.0) -> mx.array:
        return mx.array((generator.standard_normal(shape) * spread).astype(np.float32)).astype(dtype)

    return draw


def causal(length: int, keys: int, dtype: mx.Dtype) -> mx.array:
    """An additive mask, `length x keys`: query i may look at key j up to j = i + keys - length."""
    return mx.array(np.triu(np.full((length, keys), -np.inf, np.float32), k=keys - length + 1)).astype(dtype)


def agrees(
    function: Callable[..., Any],
    formula: Callable[..., Array64],
    *args: Any,
    seed: int,
    expected: Array64 | None = None,
    **kwargs: Any,
) -> None:
    """Check that `function(*args, **kwargs)` gives what the formula gives, in the first argument's dtype.

    Args:
        function: the learner's program.
        formula: the same in float64 NumPy, with a parameter `r` as module `rounding` says. Its parameter names are the
            words in which a failing case is described.
        args, kwargs: the inputs; MLX arrays reach the formula as float64.
        seed: what the inputs were drawn with, for the description.
        expected: another oracle's answer, to compare with in place of the formula's.
    """
    bound = inspect.signature(formula).bind(*args, **kwargs)
    case, size = describe(bound.arguments, seed)
    dtype: mx.Dtype = args[0].dtype

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

    if not isinstance(actual, mx.array):
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
    worst = np.unravel_index(int(np.argmax(np.where(strange, np.inf, distance))), expected.shape)
    where = f"at [{', '.join(str(int(i)) for i in worst)}]"
    wanted, got = float(expected[worst]), float(numbers[worst])
    digits = next((d for d in range(4, 17) if f"{wanted:.{d}g}" != f"{got:.{d}g}"), 17)
    lines = (f"expected  {wanted:.{digits}g}", f"got       {got:.{digits}g}")
    if strange.any():
        fail(Kind.NAN, f"NaN or infinity in {int(strange.sum())} of {wrong.size} elements, first {where}", *lines)
    fail(Kind.VALUES, f"values differ in {int(wrong.sum())} of {wrong.size} elements, furthest {where}", *lines)


@contextmanager
def raises_value_error(case: str, *words: str) -> Iterator[None]:
    """Check that the block raises a ValueError whose message holds every one of `words`."""
    try:
        yield
    except ValueError as error:
        missing = [word for word in words if word not in str(error)]
        if not missing:
            return
        headline = f"the ValueError's message does not mention {', '.join(missing)}"
        raise CheckFailed(Finding(Kind.NO_ERROR, headline, (f"got       {error}",), case)) from error
    except (CheckFailed, NotImportable, NotImplementedError):
        raise
    except Exception as error:
        headline = f"raised {type(error).__name__}, expected a ValueError"
        raise CheckFailed(Finding(Kind.NO_ERROR, headline, (f"got       {error}",), case)) from error
    raise CheckFailed(Finding(Kind.NO_ERROR, "no error was raised, expected a ValueError", (), case))


def describe(arguments: dict[str, Any], seed: int) -> tuple[str, int]:
    """The inputs in words, and how many numbers they hold: `float32, x 2 x 3, axis -1, seed 4`."""
    arrays = {name: v for name, v in arguments.items() if isinstance(v, mx.array)}
    words = [dtype_word(next(iter(arrays.values())).dtype)]
    for name, v in arguments.items():
        if isinstance(v, mx.array):
            words.append(f"{name} {shape_words(v.shape)}")
        else:
            words.append(f"no {name}" if v is None else f"{name} {v:.4g}" if isinstance(v, float) else f"{name} {v}")
    return f"{', '.join(words)}, seed {seed}", sum(math.prod(v.shape) for v in arrays.values())


def shape_words(shape: tuple[int, ...]) -> str:
    """`2 x 3`, or `a single number` for no dimensions."""
    return " x ".join(str(n) for n in shape) or "a single number"


def dtype_word(dtype: mx.Dtype) -> str:
    """`float16` for mx.float16."""
    return str(dtype).removeprefix("mlx.core.")


def _as_float64(v: Any) -> Any:
    return to_float64(v) if isinstance(v, mx.array) else v
