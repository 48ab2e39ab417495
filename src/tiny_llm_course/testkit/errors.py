"""Checks that fail, checks of errors that a program must raise, and errors of the course's own."""

import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from ..course.findings import CheckFailed as CheckFailed
from ..course.findings import Finding as Finding
from ..course.findings import Kind as Kind
from ..course.findings import message_of
from ..paths import ROOT
from ..programs.packages import NotImportable

TESTS = ROOT / "tests"


def fail(kind: Kind, headline: str, case: str, *lines: str, size: int = 0, swept: bool = False) -> NoReturn:
    """Raise the failure of a check that compares in its own way."""
    raise CheckFailed(Finding(kind, headline, lines, case, size, swept=swept))


def fail_if_different(headline: str, expected: Any, actual: Any, case: str, size: int = 0) -> None:
    """Fail the check unless what a program gave equals what is expected; both are then shown."""
    if actual != expected:
        fail(Kind.VALUES, headline, case, f"expected  {expected}", f"got       {actual}", size=size)


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
        missing = [word for word in words if word not in message_of(error)]
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


def course_fault(error: BaseException, case: str = "") -> Finding:
    """The finding of a check that failed in itself, with its place: its author must mend it."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if TESTS in Path(frame.filename).parents]
    place = f" ({Path(own[-1].filename).relative_to(ROOT).as_posix()}:{own[-1].lineno})" if own else ""
    what = f"{type(error).__name__}: {message_of(error)}".rstrip(": ").partition("\n")[0]
    return Finding(Kind.COURSE, f"a check of the course failed in itself, not your code: {what}{place}", case=case)


def of_the_course(error: BaseException) -> bool:
    """Whether an error that passed through none of the learner's lines is a mistake of the check.

    It is if a name or a recording is missing, or if it was raised in what tests share, such as a formula. A check that
    stops at what the learner returned is none.
    """
    if isinstance(error, NameError | ImportError) or type(error) is LookupError:
        return True
    frames = traceback.extract_tb(error.__traceback__)
    file = Path(frames[-1].filename) if frames else Path()
    return TESTS in file.parents and not file.name.startswith("test_")
