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
from typing import Any

import mlx.core as mx
import numpy as np

from .day_files import variants_path
from .packages import SOLUTION_NAME, NotImportable, installed, program
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
        self._known: dict[tuple[str, str], list[Outcome]] = {}

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

    def outcomes(self, task: str, subject: Program) -> list[Outcome]:
        """What a program computes on each probe of a task, its prints swallowed."""
        return [_outcome(probe.run, subject) for name, probe in self._probes if name == task]

    def equal(self, task: str, mine: list[Outcome], other: list[Outcome]) -> bool:
        """The same on every probe; an error equals nothing."""
        probes = [probe for name, probe in self._probes if name == task]
        return all(_same(a, b, p.closeness) for a, b, p in zip(mine, other, probes, strict=True))

    def right(self, task: Task, subject: Program) -> bool:
        """Whether the program equals the solution on all probes."""
        solved = self._known_outcomes(task.id, "", lambda: program(task.targets[0], SOLUTION_NAME))
        return bool(solved) and self.equal(task.id, self.outcomes(task.id, subject), solved)

    def mistakes(self, task: Task, subject: Program) -> list[Variant]:
        """The wrong variants that the program equals on all probes; none if it equals the solution."""
        mine = self.outcomes(task.id, subject)
        if not mine or None in mine or self.right(task, subject):
            return []
        return [v for v in self.wrong_of(task.id) if self.equal(task.id, mine, self._outcomes_of(v))]

    def diagnosis(self, task: Task, subject: Program, needs: Sequence[Task]) -> tuple[list[Variant], list[Task]]:
        """What to tell of a failing program: the mistakes of its own, or the needs that it suffers from."""
        if culprits := self.culprits(task, subject, needs):
            return [], culprits
        with solved(needs):
            return self.mistakes(task, subject), []

    def _outcomes_of(self, variant: Variant) -> list[Outcome]:
        return self._known_outcomes(variant.task, variant.name, lambda: variant.program)

    def _known_outcomes(self, task: str, name: str, subject: Callable[[], Program]) -> list[Outcome]:
        """The outcomes of a variant, or of the solution under an empty name: computed once, they do not change."""
        if (task, name) not in self._known:
            self._known[task, name] = self.outcomes(task, subject())
        return self._known[task, name]

    def culprits(self, task: Task, subject: Program, needs: Sequence[Task]) -> list[Task]:
        """The needs that make a right program wrong: with the solution's in their place it equals the solution.

        As few as will do, and of two that would do the earlier: the later one is right as soon as that is. None if the
        program itself is wrong, or nothing is.
        """

        def enough(chosen: Sequence[Task]) -> bool:
            with solved(chosen):
                return self.right(task, subject)

        if not needs or enough([]) or not enough(needs):
            return []
        chosen = list(needs)
        for need in reversed(needs):
            fewer = [other for other in chosen if other is not need]
            if enough(fewer):
                chosen = fewer
        return chosen


def _collect(keep: Callable[[Program], None]) -> Callable[[Program], Program]:
    """A decorator that keeps what it decorates, and leaves it as it is."""

    def decorate(program: Program) -> Program:
        keep(program)
        return program

    return decorate


@contextlib.contextmanager
def solved(tasks: Sequence[Task]) -> Iterator[None]:
    """While the block runs, the targets of these tasks are the solution's."""
    with contextlib.ExitStack() as stack:
        for target in (target for task in tasks for target in task.targets):
            with contextlib.suppress(NotImportable, AttributeError):  # a file or a function that is not there
                stack.enter_context(installed(target, program(target, SOLUTION_NAME)))
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
