"""Known programs for each task: wrong ones with names, right ones in other words, and probes that tell them apart.

A day's variants stand beside its tests, in `variants_dayN.py`, which makes one `Variants()` called `day` and decorates
plain functions (or classes, for a task that asks for a class). A probe takes a program and gives what it computes, as
an array or a tuple of arrays, on inputs that it draws itself.

A mistake is named when the learner's outcome equals a wrong program's outcome on every probe and differs from the
solution's on at least one. "Equals" means the same shape, dtype and, to rounding, the same numbers.
"""

import contextlib
import dataclasses
import io
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np

from .day_files import variants_path
from .packages import SOLUTION_NAME, NotImportable, all_installed, program
from .registry import Day, Task
from .rounding import EPSILON, to_float64

Program = Callable[..., Any]
Outcome = tuple[Any, ...] | None  # the arrays of one probe; None if the program raised an error


@dataclasses.dataclass(frozen=True)
class Variant:
    """One known program. `fact` completes "Your output equals what you get when"; `question` never gives the fix."""

    task: str
    name: str
    program: Program
    fact: str = ""
    question: str = ""


@dataclasses.dataclass(frozen=True)
class Probe:
    """What to run a program on, and how far equal outcomes may be apart, as a share of the largest number.

    Wide enough for sums taken in another order; the probes keep different programs much further apart.
    """

    run: Callable[[Program], Any]
    closeness: float


class Variants:
    """The programs and probes of one day, collected by its decorators."""

    def __init__(self) -> None:
        self._wrong: list[Variant] = []
        self._accepted: list[Variant] = []
        self._probes: list[tuple[str, Probe]] = []
        self._known: dict[tuple[str, str, int], Outcome] = {}

    def wrong(self, task: str, name: str, *, fact: str, question: str) -> Callable[[Program], Program]:
        """Decorate a program that must be caught by the task's own tests, and named."""
        return _collect(lambda p: self._wrong.append(Variant(task, name, p, fact, question)))

    def accepted(self, task: str, name: str) -> Callable[[Program], Program]:
        """Decorate a program that is right although it is written in another way than the solution."""
        return _collect(lambda p: self._accepted.append(Variant(task, name, p)))

    def probe(self, task: str, dtype: mx.Dtype = mx.float32) -> Callable[[Program], Program]:
        """Decorate a probe of the task; the dtype it computes in says how closely equal outcomes agree."""
        return _collect(lambda f: self._probes.append((task, Probe(f, 16 * EPSILON[dtype]))))

    def wrong_of(self, task: str) -> list[Variant]:
        """The task's known mistakes."""
        return [v for v in self._wrong if v.task == task]

    def accepted_of(self, task: str) -> list[Variant]:
        """The task's other right programs."""
        return [v for v in self._accepted if v.task == task]

    def tasks(self) -> set[str]:
        """The tasks that something here belongs to."""
        return {v.task for v in [*self._wrong, *self._accepted]} | {name for name, _ in self._probes}

    def first_probe(self, task: str) -> Callable[[Program], Any] | None:
        """The task's first probe in float32."""
        closeness = 16 * EPSILON[mx.float32]
        return next((p.run for name, p in self._probes if name == task and p.closeness == closeness), None)

    def right(self, task: Task, subject: Program) -> bool:
        """Whether the program equals the solution on all probes."""
        return bool(self._alike(task, subject, [_solution(task)]))

    def mistakes(self, task: Task, subject: Program) -> list[Variant]:
        """The wrong variants that the program equals on all probes; none if it equals the solution."""
        return self.diagnosis(task, subject, [])[0]

    def diagnosis(self, task: Task, subject: Program, needs: Sequence[Task]) -> tuple[list[Variant], list[Task]]:
        """What to tell of a failing program: the mistakes of its own, or the needs that it suffers from."""
        solution = _solution(task)
        with solved(needs):
            alike = self._alike(task, subject, [solution, *self.wrong_of(task.id)])
        if solution not in alike:
            return alike, []
        return [], self._culprits(task, subject, needs)

    def _alike(self, task: Task, subject: Program, known: list[Variant]) -> list[Variant]:
        """Those of some known programs that the program equals on every probe; an error equals nothing.

        Its prints are swallowed. It is not run on further probes when there is none left.
        """
        probes = [probe for name, probe in self._probes if name == task.id]
        alike = known if probes else []
        for number, probe in enumerate(probes):
            if alike:
                mine = _outcome(probe.run, subject)
                alike = [v for v in alike if _same(mine, self._known_outcome(v, number, probe), probe.closeness)]
        return alike

    def _known_outcome(self, variant: Variant, number: int, probe: Probe) -> Outcome:
        """What a known program computes on its task's probe of a number: computed once, it does not change."""
        key = variant.task, variant.name, number
        if key not in self._known:
            self._known[key] = _outcome(probe.run, variant.program)
        return self._known[key]

    def _culprits(self, task: Task, subject: Program, needs: Sequence[Task]) -> list[Task]:
        """The needs that make a right program wrong: with the solution's in their place it equals the solution.

        As few as will do, and of two that would do the earlier: the later one is right as soon as that is. None if
        nothing is wrong.
        """

        @cache
        def enough(*chosen: Task) -> bool:
            with solved(chosen):
                return self.right(task, subject)

        def kept(before: Sequence[Task], some: Sequence[Task], after: Sequence[Task]) -> Sequence[Task]:
            """Those of some needs that must be the solution's beside these others; all of them together are enough."""
            if enough(*before, *after):
                return []
            if len(some) <= 1:
                return some
            # By halves: one wrong need of many is found in a few steps.
            early, late = some[: len(some) // 2], some[len(some) // 2 :]
            late = kept([*before, *early], late, after)
            return [*kept(before, early, [*late, *after]), *late]

        return list(kept([], needs, []))


def _solution(task: Task) -> Variant:
    """The solution among the known programs, under an empty name."""
    return Variant(task.id, "", program(task.targets[0], SOLUTION_NAME))


def _collect(keep: Callable[[Program], None]) -> Callable[[Program], Program]:
    """A decorator that keeps what it decorates, and leaves it as it is."""

    def decorate(program: Program) -> Program:
        keep(program)
        return program

    return decorate


@contextlib.contextmanager
def solved(tasks: Sequence[Task]) -> Iterator[None]:
    """While the block runs, the targets of these tasks are the solution's."""
    replacements = {}
    for target in (target for task in tasks for target in task.targets):
        with contextlib.suppress(NotImportable, AttributeError):  # a file or a function that is not there
            program(target)
            replacements[target] = program(target, SOLUTION_NAME)
    with all_installed(replacements):
        yield


def load_variants(day: Day) -> Variants:
    """The variants of a day."""
    path = variants_path(day)
    scope: dict[str, Any] = {"__name__": f"variants_{day.week}_{day.number}", "__file__": str(path)}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), scope)
    variants = scope["day"]
    assert isinstance(variants, Variants)
    return variants


def _outcome(run: Callable[[Program], Any], subject: Program) -> Outcome:
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            result = run(subject)
            result = result if isinstance(result, tuple) else (result,)
            mx.eval(*(x for x in result if isinstance(x, mx.array)))
    except KeyboardInterrupt:
        raise
    except BaseException:  # sys.exit() too
        return None
    return result


def _same(mine: Outcome, other: Outcome, closeness: float) -> bool:
    if mine is None or other is None or len(mine) != len(other):
        return False
    return all(_same_array(a, b, closeness) for a, b in zip(mine, other, strict=True))


def _same_array(a: Any, b: Any, closeness: float) -> bool:
    if not (isinstance(a, mx.array) and isinstance(b, mx.array) and a.shape == b.shape and a.dtype == b.dtype):
        return False
    x, y = to_float64(a), to_float64(b)
    largest = float(np.abs(np.where(np.isfinite(y), y, 0.0)).max(initial=0.0))
    return bool(np.allclose(x, y, rtol=0.0, atol=closeness * largest, equal_nan=True))
