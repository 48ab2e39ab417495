"""What `doctor` finds: a line for each thing that it has looked at."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One thing that was looked at. A problem has a `fix`, one command; `stops` says that the course cannot go on."""

    name: str
    text: str
    fix: str = ""
    stops: bool = False
    absent: bool = False  # not here, which is no problem


Check = Callable[[], Iterable[Line]]
