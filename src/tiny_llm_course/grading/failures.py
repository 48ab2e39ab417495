"""How a check fails on a program, and whether it fails alike on another."""

import math
import re
from collections.abc import Iterable, Mapping
from types import FrameType
from typing import Any, NamedTuple

import mlx.core as mx

from ..course.findings import Finding, Kind
from ..testkit.outcomes import Stopped
from ..testkit.rounding import EPSILON, close

PLAIN = str, bytes, int, float
RESHAPED = re.compile(r"\[reshape\] Cannot reshape array of size (\d+) into shape \(([\d,]+)\)")


class Failure(NamedTuple):
    """How a check fails: its finding, the exception if it is not the check's own, and the program's result."""

    finding: Finding
    stopped: Stopped | None = None
    result: Any = None  # of the learner's program, if the check has kept it
    seen: tuple[tuple[str, str], ...] = ()  # the numbers, words and lists of them that the check had at that moment

    @property
    def stops(self) -> bool:
        """Whether the program itself raised."""
        return self.stopped is not None

    @property
    def lacks_words(self) -> bool:
        """Whether only the message of an error that was rightly raised lacks something."""
        return "message does not mention" in self.finding.headline

    @property
    def is_in_words(self) -> bool:
        """Whether it says that values differ, and the check has kept no array of the program's."""
        return self.finding.kind is Kind.VALUES and not isinstance(self.result, mx.array)

    def like(self, other: "Failure | None") -> bool:
        """Return whether another program fails in the same case, by the same kind or exception."""
        if other is None:
            return False
        mine, theirs = self.finding, other.finding
        return (mine.kind, mine.case, self.stopped) == (theirs.kind, theirs.case, other.stopped)

    def equals(self, other: "Failure | None") -> bool:
        """Return whether another program also has the same result there, or the same message."""
        if other is None or not self.like(other):
            return False
        mine, theirs = self.result, other.result
        if isinstance(mine, mx.array) and isinstance(theirs, mx.array):
            return close(mine, theirs, 16 * EPSILON.get(theirs.dtype, 0.0))
        ours, others = self.finding, other.finding
        wording = ours.kind is Kind.NO_ERROR  # what its message says besides is the program's own
        same = ours.headline == others.headline and (wording or ours.lines == others.lines)
        return same or self.stopped is not None

    def equals_seen(self, other: "Failure | None") -> bool:
        """Return whether it also shows a result, not only that something differs, and the check saw the same before."""
        if not self.is_in_words:
            return self.equals(other)
        return bool(got(self.finding)) and other is not None and self.seen == other.seen and self.equals(other)

    def has_sizes_of(self, other: "Failure | None") -> bool:
        """Return whether both raise one error of MLX's about arrays of the same sizes."""
        sizes = _sizes(self.finding.headline)
        return bool(sizes[0]) and other is not None and sizes == _sizes(other.finding.headline)

    def contradicts(self, other: "Failure | None") -> bool:
        """Return whether another program, which fails in the same case and way, has another result there."""
        if other is None or not self.like(other) or self.equals(other):
            return False
        if isinstance(self.result, mx.array) and isinstance(other.result, mx.array):
            return True
        mine, theirs = (got(failure.finding) for failure in (self, other))
        return bool(mine) and mine != theirs


def _sizes(headline: str) -> tuple[str, int]:
    """Return what MLX says from its "[" on, but of a shape in `reshape` only the number of elements."""
    said = RESHAPED.search(headline)
    return (said[1], math.prod(map(int, said[2].split(",")))) if said else (headline.partition("[")[2], 0)


def got(finding: Finding) -> list[str]:
    """Return the lines that show a program's result, which messages about bytes and times have not."""
    return [line for line in finding.lines if line.startswith("got")]


def seen_in(frames: Iterable[FrameType]) -> tuple[tuple[str, str], ...]:
    """Return the local variables of a check's frames that are numbers, words or lists of them."""
    values = (value for frame in frames for value in frame.f_locals.items())
    return tuple((name, repr(value)) for name, value in values if _is_plain(value))


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return _is_plain([*value, *value.values()])
    return value is None or isinstance(value, PLAIN) or (isinstance(value, list | tuple) and all(map(_is_plain, value)))


Failures = Mapping[str, Failure | None]  # by check; None if it passes


def kind_of(failure: Failure | None) -> Kind | None:
    """Return the kind of a failure; None for a check that passes."""
    return failure.finding.kind if failure else None


def stop_alike(mine: Failure | None, theirs: Failure | None, by: Stopped) -> bool:
    """Return whether both programs raise, or neither does, or the first raises another exception than this one."""
    stops = [failure is not None and failure.stops for failure in (mine, theirs)]
    return stops[0] == stops[1] or (mine is not None and mine.stopped not in (None, by))


def fails_alike(mine: Failures, theirs: Failures) -> bool:
    """Return whether two programs fail in the same checks, each time by the same kind; what messages lack is apart."""
    return all(_way_of(failure) == _way_of(theirs[name]) for name, failure in mine.items())


def _way_of(failure: Failure | None) -> Kind | None:
    return None if failure and failure.lacks_words else kind_of(failure)
