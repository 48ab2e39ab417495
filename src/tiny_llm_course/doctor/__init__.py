"""Checks of this machine and this checkout, with a fix for each problem: one line per check."""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Line(NamedTuple):
    """One finding. A problem has a `fix`, one command; `stops` marks a problem that blocks the course."""

    name: str
    text: str
    fix: str = ""
    stops: bool = False
    absent: bool = False  # missing, but not a problem


Check = Callable[[], Iterable[Line]]
