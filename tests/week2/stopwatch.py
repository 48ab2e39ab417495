"""A clock that stands still until a program runs, and sees what has been computed whenever it is read."""

import dataclasses
import gc
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import mlx.core as mx

from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind

SIZE = 1 << 14  # numbers of an array: 64 KB, which MLX's count of its memory shows
LONG = 150_000  # numbers whose sorting takes some milliseconds on any machine
ENDLESS = 150  # runs and readings after which there should have been an end

FORMS: dict[str, Callable[[Any], Any]] = {
    "an array": lambda new: new(),
    "a list of two arrays": lambda new: [new(), new()],
    "a tuple of a number and an array": lambda new: (1, new()),
    "a dict of two arrays": lambda new: {"a": new(), "b": new()},
    "a list of dicts of lists of arrays": lambda new: [{"a": [new()]}, {"b": [new(), (new(),)]}],
    "None": lambda new: None,
    "a number": lambda new: 2.5,
}


@cache
def numbers() -> mx.array:
    """In no order."""
    x = mx.random.normal((LONG,), key=mx.random.key(0))
    mx.eval(x)
    return x


@dataclasses.dataclass
class Stopwatch:
    """A program of foretold runs, and the clock that goes with it.

    Run by run it takes the seconds that `seconds` says, from the first one again when they are used up; runs that warm
    up take some, too. `events` is what happened: "run", and "clock" for each reading.
    """

    seconds: Sequence[float]
    form: str = "an array"  # of what a run gives
    long: bool = False  # whether what it gives takes long to compute
    leaves: bool = False  # whether a run starts work that is not in what it gives
    case: str = ""
    now: float = 1000.0
    events: list[str] = dataclasses.field(default_factory=list)
    uncomputed: list[int] = dataclasses.field(default_factory=list)  # for each reading: arrays of earlier runs
    busy: list[bool] = dataclasses.field(default_factory=list)  # for each reading: whether something is being computed
    _before: int = 1 << 62  # bytes that MLX held before anything long was started

    def __post_init__(self) -> None:
        self._arrays: list[mx.array] = []
        if self.long or self.leaves:
            self._note_memory()

    def start_something(self) -> None:
        """Start what takes long, and wait for nothing."""
        self._note_memory()
        mx.async_eval(self._long())

    def program(self) -> object:
        """One run."""
        self._must_end()
        self.now += self.seconds[self.events.count("run") % len(self.seconds)]
        self.events.append("run")
        if self.leaves:
            mx.async_eval(self._long())
        return FORMS[self.form](self._new)

    def clock(self) -> float:
        """The time. What has not been computed yet is computed here, so that it is seen once."""
        self._must_end()
        self.busy.append(mx.get_active_memory() - self._before > 2 * LONG)  # bytes: half of what sorting holds
        late = 0
        for x in self._arrays:
            held = mx.get_active_memory()
            mx.eval(x)
            late += mx.get_active_memory() - held >= x.nbytes // 2
        self._arrays.clear()
        self.uncomputed.append(late)
        self.events.append("clock")
        return self.now

    def _must_end(self) -> None:
        if len(self.events) > ENDLESS:
            headline = f"no end after {self.events.count('run')} runs of the program"
            line = f"got       {self.events.count('clock')} readings of the clock"
            raise CheckFailed(Finding(Kind.VALUES, headline, (line,), self.case))

    def _note_memory(self) -> None:
        numbers()
        gc.collect()  # arrays that others have left must not go meanwhile
        mx.synchronize()
        self._before = mx.get_active_memory()

    def _new(self) -> mx.array:
        """An array that is not computed yet."""
        self._arrays.append(mx.broadcast_to(self._long(), (SIZE,)) * 2 if self.long else numbers()[:SIZE] * 2)
        return self._arrays[-1]

    def _long(self) -> mx.array:
        """A number that takes long. On the way to it there is a large array, which is gone as soon as it is there.

        There are few operations in it: MLX starts no more than some ten before it waits for the first.
        """
        return mx.sum(mx.sort(numbers()))


def expected_events(seconds: Sequence[float], least_seconds: float, least_runs: int, warm_up: int) -> list[str]:
    """What happens while a program is timed as `timed` promises it."""
    taken: list[float] = []
    while len(taken) < least_runs or sum(taken) < least_seconds:
        taken.append(seconds[(warm_up + len(taken)) % len(seconds)])
    return ["run"] * warm_up + ["clock", "run", "clock"] * len(taken)
