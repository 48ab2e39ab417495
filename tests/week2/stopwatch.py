"""A clock that advances only when the program runs, and records what has been evaluated at each reading."""

import dataclasses
import gc
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import mlx.core as mx

from tiny_llm_course.testkit.errors import CheckFailed, Finding, Kind

SIZE = 1 << 14  # elements of an array: 64 KB, which MLX's memory counter shows
LONG = 150_000  # elements whose sorting takes some milliseconds on any machine
ENDLESS = 150  # runs and readings after which the program counts as endless

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
    """Return unsorted numbers."""
    x = mx.random.normal((LONG,), key=mx.random.key(0))
    mx.eval(x)
    return x


@dataclasses.dataclass
class Stopwatch:
    """A program with scripted run times, and the clock that goes with it.

    Each run, warm-up included, takes the next of `seconds`, which repeat. `events` records "run", and "clock" for each
    reading.
    """

    seconds: Sequence[float]
    form: str = "an array"  # of the result of a run
    long: bool = False  # whether the result takes long to compute
    leaves: bool = False  # whether a run starts work that is not part of its result
    case: str = ""
    now: float = 1000.0
    events: list[str] = dataclasses.field(default_factory=list)
    uncomputed: list[int] = dataclasses.field(default_factory=list)  # for each reading: arrays of earlier runs
    busy: list[bool] = dataclasses.field(default_factory=list)  # for each reading: whether something is being computed
    _before: int = 1 << 62  # bytes that MLX held before any long work was started

    def __post_init__(self) -> None:
        self._arrays: list[mx.array] = []
        if self.long or self.leaves:
            self._note_memory()

    def start_something(self) -> None:
        """Start long work without waiting for it."""
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
        """Return the time. Arrays not evaluated yet are evaluated here, so that each is counted once."""
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
        gc.collect()  # earlier garbage must not be freed in the meantime
        mx.synchronize()
        self._before = mx.get_active_memory()

    def _new(self) -> mx.array:
        """Return an array that is not evaluated yet."""
        self._arrays.append(mx.broadcast_to(self._long(), (SIZE,)) * 2 if self.long else numbers()[:SIZE] * 2)
        return self._arrays[-1]

    def _long(self) -> mx.array:
        """Return a scalar that takes long to compute, through a large temporary array.

        It uses few operations: MLX starts only about ten before it waits for the first.
        """
        return mx.sum(mx.sort(numbers()))


def expected_events(seconds: Sequence[float], least_seconds: float, least_runs: int, warm_up: int) -> list[str]:
    """Return the events of a program timed as `timed` specifies."""
    taken: list[float] = []
    while len(taken) < least_runs or sum(taken) < least_seconds:
        taken.append(seconds[(warm_up + len(taken)) % len(seconds)])
    return ["run"] * warm_up + ["clock", "run", "clock"] * len(taken)
