"""What the graded tests are written with: seeded inputs, the comparison with a formula, and checks of errors."""

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import mlx.core as mx
import numpy as np
from hypothesis import HealthCheck, Phase, settings

from ..course.findings import CheckFailed as CheckFailed
from ..course.findings import Finding as Finding
from ..course.findings import Kind as Kind
from ..programs.packages import NotImportable
from .rounding import Array64, Round, exact, rounding, to_float64, tolerance

# How a failing case is attached to an exception that is not ours.
CASE_NOTE = "case: "

DTYPES = [mx.float32, mx.float16, mx.bfloat16]


# Properties are tried on the same examples every time: a grade must not depend on luck. Hypothesis does not explain a
# failing one: that runs the check some hundred times more, line by line, for words that no verdict shows.
property_test = settings(
    max_examples=20,
    phases=[phase for phase in Phase if phase is not Phase.explain],
    derandomize=True,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


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


def same_text(actual: Any, expected: str, case: str, size: int | None = None) -> None:
    """Check that a text is the expected one; else say where they part. A case is as large as its text by default."""
    size = len(expected) if size is None else size
    if type(actual) is not str:
        raise CheckFailed(Finding(Kind.TYPE, f"got {type_words(actual)}, expected a str", (), case, size))
    if actual != expected:
        headline, at = _parting(actual, expected, "text")
        begin = max(0, at - 8)
        told = (("expected  ", expected), ("got       ", actual))
        lines = [f"{name}{_cut(ascii(text[begin : at + 12]))}" for name, text in told]
        lines += [f"both from character {begin} on"] * bool(begin)
        raise CheckFailed(Finding(Kind.VALUES, headline, tuple(lines), case, size))


def same_ids(actual: Any, expected: list[int], case: str) -> None:
    """Check that a list of token ids is the expected one; else say where they part."""
    _same_list(actual, expected, int, "ids", case)


def same_pieces(actual: Any, expected: list[str], case: str) -> None:
    """Check that a list of strings is the expected one; else say where they part."""
    _same_list(actual, expected, str, "pieces", case)


def _same_list(actual: Any, expected: list[Any], kind: type, noun: str, case: str) -> None:
    size = len(expected)
    if type(actual) is not list:
        raise CheckFailed(Finding(Kind.TYPE, f"got {type_words(actual)}, expected a list", (), case, size))
    for i, item in enumerate(actual):
        if type(item) is not kind:
            headline = f"item {i} of the list is {type_words(item)}, expected {kind.__name__}"
            raise CheckFailed(Finding(Kind.TYPE, headline, (), case, size))
    if actual != expected:
        headline, at = _parting(actual, expected, noun)
        begin = max(0, at - 3)
        lines = [f"{name}{_window(items, begin)}" for name, items in (("expected  ", expected), ("got       ", actual))]
        raise CheckFailed(Finding(Kind.VALUES, headline, tuple(lines), case, size))


def _parting(actual: Any, expected: Any, noun: str) -> tuple[str, int]:
    """Where two texts or lists begin to differ, in words and as an index."""
    pairs = enumerate(zip(actual, expected, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(actual), len(expected)))
    if len(actual) == len(expected):
        return f"wrong {noun}, first different at index {at}", at
    return f"wrong {noun}: length {len(actual)} instead of {len(expected)}, first different at index {at}", at


def _window(items: list[Any], begin: int) -> str:
    shown = ", ".join(_cut(ascii(item)) for item in items[begin : begin + 8])
    return f"[{'..., ' * (begin > 0)}{shown}{', ...' * (len(items) > begin + 8)}]"


def _cut(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:86]} ..."


def type_words(v: Any) -> str:
    """`None`, or `a dict`: what something is, in words."""
    if v is None:
        return "None"
    name = f"{type(v).__module__}.{type(v).__qualname__}".removeprefix("builtins.")
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


@contextmanager
def noted(case: str) -> Iterator[None]:
    """Attach the case, in words, to an exception of the learner's code."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, CheckFailed):  # which has its own
            error.add_note(f"{CASE_NOTE}{case}")
        raise


def raises_value_error(case: str, *words: str) -> AbstractContextManager[None]:
    """Check that the block raises a ValueError whose message holds every one of `words`."""
    return raises_error(ValueError, case, *words)


@contextmanager
def raises_error(kind: type[Exception], case: str, *words: str) -> Iterator[None]:
    """Check that the block raises an error of a kind, whose message holds every one of `words`."""
    name = f"a {kind.__name__}"
    try:
        yield
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        if not missing:
            return
        headline = f"the {kind.__name__}'s message does not mention {', '.join(missing)}"
        raise CheckFailed(Finding(Kind.NO_ERROR, headline, (f"got       {error}",), case)) from error
    except (CheckFailed, NotImportable, NotImplementedError):
        raise
    except Exception as error:
        headline = f"raised {type(error).__name__}, expected {name}"
        raise CheckFailed(Finding(Kind.NO_ERROR, headline, (f"got       {error}",), case)) from error
    raise CheckFailed(Finding(Kind.NO_ERROR, f"no error was raised, expected {name}", (), case))


def describe(arguments: dict[str, Any], seed: int, dtype: mx.Dtype) -> tuple[str, int]:
    """The inputs in words, and how many numbers they hold: `float32, x 2 x 3, axis -1, seed 4`."""
    arrays = {name: v for name, v in arguments.items() if isinstance(v, mx.array)}
    words = [dtype_word(dtype)]
    for name, v in arguments.items():
        if isinstance(v, mx.array):
            words.append(f"{name} {shape_words(v.shape)}")
        else:
            text = f"{v:.4g}" if isinstance(v, float) else str(v)
            if isinstance(v, list | tuple) and len(text) > 60:
                text = f"{text[:56]} ..."  # a long list says no more than its beginning
            words.append(f"no {name}" if v is None else f"{name} {text}")
    return f"{', '.join(words)}, seed {seed}", sum(math.prod(v.shape) for v in arrays.values())


def shape_words(shape: tuple[int, ...]) -> str:
    """`2 x 3`, or `a single number` for no dimensions."""
    return " x ".join(str(n) for n in shape) or "a single number"


def dtype_word(dtype: mx.Dtype) -> str:
    """`float16` for mx.float16."""
    return str(dtype).removeprefix("mlx.core.")


def _as_float64(v: Any) -> Any:
    return to_float64(v) if isinstance(v, mx.array) else v
