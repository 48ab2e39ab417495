"""Fail a check, check that a program raises, and recognize errors of the course's own checks."""

import dataclasses
import re
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ..course.findings import CheckFailed as CheckFailed
from ..course.findings import Finding as Finding
from ..course.findings import Kind as Kind
from ..course.findings import message_of
from ..paths import ROOT
from ..programs.packages import NotImportable
from .relations import compared

TESTS = ROOT / "tests"


def fail(kind: Kind, headline: str, case: str, *lines: str, size: int = 0, swept: bool = False) -> NoReturn:
    """Raise the failure of a check that does its own comparison."""
    raise CheckFailed(Finding(kind, headline, lines, case, size, swept=swept))


def fail_if_different(headline: str, expected: Any, actual: Any, case: str, size: int = 0) -> None:
    """Fail the check unless `actual` equals `expected`; show both, or the first field or key that differs."""
    if actual != expected:
        where, wanted, got = _first_difference(expected, actual)
        what = f"{headline}, at {where}" if where else headline
        lines = [f"expected  {wanted}", f"got       {got}", *compared(got, wanted)]
        fail(Kind.VALUES, what, case, *lines, size=size)


def _first_difference(expected: Any, actual: Any) -> tuple[str, Any, Any]:
    """Return the first field or key that differs between two objects of one type, with both values."""
    parts = [dict(_fields(value)) for value in (expected, actual)]
    if type(expected).__qualname__ == type(actual).__qualname__ and parts[0].keys() == parts[1].keys():
        for name, wanted in parts[0].items():
            if wanted != parts[1][name]:
                return f"`{name}`", wanted, parts[1][name]
    return "", expected, actual


def _fields(value: Any) -> Iterable[tuple[Any, Any]]:
    if dataclasses.is_dataclass(value):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return zip(value._fields, value, strict=True)
    return value.items() if isinstance(value, dict) and len(value) > 1 else ()


@contextmanager
def raises_error(kind: type[Exception], case: str, *words: str) -> Iterator[None]:
    """Check that the block raises an error of this kind whose message contains every one of `words`.

    A shape, as "(6, 5)", may also be written as 6 x 5 or [6, 5], but not as (6,5), which MLX's own messages do.
    """
    name = f"a {kind.__name__}"
    try:
        yield
    except kind as error:
        missing = [word for word in words if not _mentions(message_of(error), word)]
        if not missing:
            return
        headline = f"the {kind.__name__}'s message does not mention {', '.join(missing)}"
        raise CheckFailed(Finding(Kind.NO_ERROR, headline, (f"got       {message_of(error)}",), case)) from error
    except (CheckFailed, NotImportable, NotImplementedError):
        raise
    except Exception as error:
        headline = f"raised {type(error).__name__}, expected {name}"
        raise CheckFailed(Finding(Kind.NO_ERROR, headline, (f"got       {message_of(error)}",), case)) from error
    raise CheckFailed(Finding(Kind.NO_ERROR, f"no error was raised, expected {name}", (), case))


def _mentions(message: str, word: str) -> bool:
    if not re.fullmatch(r"\(\d+,(?: \d+(?:, \d+)*)?\)", word):
        return word in message
    numbers = r"(?:\D{2,3}|x)".join(re.findall(r"\d+", word))
    return re.search(rf"(?<!\d){numbers}(?!\d)", message) is not None


raises_value_error = partial(raises_error, ValueError)


def course_fault(error: BaseException, case: str = "") -> Finding:
    """Return the finding, with its place, of a check that fails because of a mistake in the check."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if TESTS in Path(frame.filename).parents]
    place = f" ({Path(own[-1].filename).relative_to(ROOT).as_posix()}:{own[-1].lineno})" if own else ""
    what = f"{type(error).__name__}: {message_of(error)}".rstrip(": ").partition("\n")[0]
    return Finding(Kind.COURSE, f"a check of the course is broken, not your code: {what}{place}", case=case)


def of_the_course(error: BaseException) -> bool:
    """Return whether an error that passed through none of the learner's lines is a mistake of the check."""
    if isinstance(error, NameError | ImportError) or type(error) is LookupError:  # a name or a recording is missing
        return True
    frames = traceback.extract_tb(error.__traceback__)
    file = Path(frames[-1].filename) if frames else Path()
    return TESTS in file.parents and not file.name.startswith(("test_", "variants_"))  # raised in what tests share
