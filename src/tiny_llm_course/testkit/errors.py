"""Checks that fail, and checks of errors that a program must raise."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from ..course.findings import CheckFailed as CheckFailed
from ..course.findings import Finding as Finding
from ..course.findings import Kind as Kind
from ..programs.packages import NotImportable


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
