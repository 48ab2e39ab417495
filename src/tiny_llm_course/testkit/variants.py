"""Known programs for each task: wrong ones with names, right ones in other words, and probes that tell them apart.

The variants of task 1.1.2 stand beside its day's tests, in `variants_1_1_2.py`, which makes one `Variants("1.1.2")`
called `known`. A wrong program is a change of the solution's text, or decorated: a plain function, or a class for a
task that asks for a class. A probe takes a program and gives what it computes, as an array or a tuple of arrays, on
inputs that it draws itself. One more function builds what `compare` times, on inputs large enough for that.

A mistake is named when the learner's outcome equals a wrong program's outcome on every probe and differs from the
solution's on at least one. "Equals" means the same shape, dtype and, to rounding, the same numbers.
"""

import contextlib
import dataclasses
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property
from types import ModuleType
from typing import Any

import mlx.core as mx

from ..course.nouns import Task
from ..course.places import variants_path
from ..course.registry import load_course
from ..paths import make_importable
from ..programs.packages import SOLUTION_NAME, NotImportable, all_installed, program
from ..programs.packages import load_solution as load_solution
from ..programs.patched import patched
from ..source.changed import DoesNotApply, Edit
from .rounding import EPSILON, close

Program = Callable[..., Any]
Outcome = tuple[Any, ...] | None  # the arrays of one probe; None if the program raised an error


@dataclasses.dataclass(frozen=True)
class Variant:
    """One known program. `fact` completes "Your output equals what you get when"; `question` never gives the fix."""

    name: str
    make: Callable[[], Program]
    fact: str = ""
    question: str = ""
    edits: tuple[Edit, ...] = ()  # of the solution's text; none for a program that is written out

    @cached_property
    def program(self) -> Program:
        """The program, made when it is first asked for; a DoesNotApply if its change does not fit the solution."""
        return self.make()


@dataclasses.dataclass(frozen=True)
class Probe:
    """What to run a program on, and how far equal outcomes may be apart, as a share of the largest number.

    Wide enough for sums taken in another order; the probes keep different programs much further apart.
    """

    run: Callable[[Program], Any]
    closeness: float


@dataclasses.dataclass(frozen=True)
class Size:
    """What a task's programs are timed on: in words, and what makes of a program a function to time."""

    words: str
    build: Callable[[Program], Callable[[], Any]]


class Variants:
    """The programs and probes of one task, collected by its methods."""

    def __init__(self, task: str) -> None:
        self.task = load_course().task(task)
        self.wrong_programs: list[Variant] = []
        self.accepted_programs: list[Variant] = []
        self.thirds: dict[frozenset[str], str] = {}  # what two mistakes at once come to
        self.size: Size | None = None
        self.untimed = ""  # why nothing is timed
        self.package = SOLUTION_NAME  # of which changes are made
        self._probes: list[Probe] = []
        self._known: dict[tuple[str, int], Outcome] = {}

    def wrong(self, name: str, *, fact: str, question: str) -> Callable[[Program], Program]:
        """Decorate a program that must be caught by the task's own tests, and named."""
        return _collect(lambda p: self.wrong_programs.append(Variant(name, lambda: p, fact, question)))

    def change(self, name: str, *edits: Edit, fact: str, question: str) -> None:
        """The same, as a change of the solution: (old text, new text), as `changed` takes them.

        The old text stands once in the target or its private helpers. Few mistakes need more than one such pair.
        """
        self.wrong_programs.append(Variant(name, lambda: self.patched(name, edits), fact, question, edits))

    def together(self, first: str, second: str, *, makes: str) -> None:
        """Of two mistakes that, made together, are a third one, which is then the one to name."""
        self.thirds[frozenset((first, second))] = makes

    def accepted(self, name: str) -> Callable[[Program], Program]:
        """Decorate a program that is right although it is written in another way than the solution."""
        return _collect(lambda p: self.accepted_programs.append(Variant(name, lambda: p)))

    def probe(self, dtype: mx.Dtype = mx.float32) -> Callable[[Program], Program]:
        """Decorate a probe of the task; the dtype it computes in says how closely equal outcomes agree."""
        return _collect(lambda f: self._probes.append(Probe(f, 16 * EPSILON[dtype])))

    def sized(self, words: str) -> Callable[[Program], Program]:
        """Decorate what builds the function to time; the words, "x 64 x 4,096", say what that is given.

        Inputs, layers and tokenizers are made while it is built, and cost no time.
        """

        def keep(build: Program) -> None:
            self.size = Size(words, build)

        return _collect(keep)

    def not_timed(self, why: str) -> None:
        """Say why there is nothing to time, as in "a table of 256 entries"."""
        self.untimed = why

    def patched(self, name: str, edits: Sequence[Edit]) -> Program:
        """The solution with changes in its text; a DoesNotApply, with the name, if one does not fit."""
        try:
            made: Program = patched(self.task.target, edits, self.package, name)
        except DoesNotApply as error:
            raise DoesNotApply(f"the change {name}: {error}") from error
        return made

    def right(self, subject: Program) -> bool:
        """Whether the program equals the solution on all probes."""
        return bool(self._alike(subject, [self._solution()]))

    def mistakes(self, subject: Program) -> list[Variant]:
        """The wrong variants that the program equals on all probes; none if it equals the solution."""
        return self.diagnosis(subject, [])[0]

    def diagnosis(self, subject: Program, needs: Sequence[Task]) -> tuple[list[Variant], list[Task]]:
        """What to tell of a failing program: the mistakes of its own, or the needs that it suffers from."""
        solution = self._solution()
        with solved(needs):
            alike = self._alike(subject, [solution, *self.wrong_programs])
        if solution not in alike:
            return alike, []
        return [], self._culprits(subject, needs)

    def _solution(self) -> Variant:
        """The solution among the known programs, under an empty name."""
        return Variant("", lambda: program(self.task.program, SOLUTION_NAME))

    def _alike(self, subject: Program, known: list[Variant]) -> list[Variant]:
        """Those of some known programs that the program equals on every probe; an error equals nothing.

        Its prints are swallowed. It is not run on further probes when there is none left.
        """
        alike = known if self._probes else []
        for number, probe in enumerate(self._probes):
            if alike:
                mine = _outcome(probe.run, subject)
                alike = [v for v in alike if _same(mine, self._known_outcome(v, number), probe.closeness)]
        return alike

    def _known_outcome(self, variant: Variant, number: int) -> Outcome:
        """What a known program computes on the probe of a number: computed once, it does not change."""
        key = variant.name, number
        if key not in self._known:
            try:
                self._known[key] = _outcome(self._probes[number].run, variant.program)
            except DoesNotApply:  # which `dev check` reports
                self._known[key] = None
        return self._known[key]

    def _culprits(self, subject: Program, needs: Sequence[Task]) -> list[Task]:
        """The needs that make a right program wrong: with the solution's in their place it equals the solution.

        As few as will do, and of two that would do the earlier: the later one is right as soon as that is. None if
        nothing is wrong.
        """

        @cache
        def enough(*chosen: Task) -> bool:
            with solved(chosen):
                return self.right(subject)

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
    for task in tasks:
        with contextlib.suppress(NotImportable, AttributeError):  # a file or a function that is not there
            program(task.program)
            replacements[task.program] = program(task.program, SOLUTION_NAME)
    with all_installed(replacements):
        yield


def load_variants(task: Task, package: str = SOLUTION_NAME) -> Variants:
    """The variants of a task, made of a package: those of `tiny_llm` suffer from faults that are planted there."""
    if package == SOLUTION_NAME:
        load_solution()
    path = variants_path(task)
    module = ModuleType(f"{package}.{path.stem}")
    source = path.read_text(encoding="utf-8").replace(SOLUTION_NAME, package)
    sys.modules[module.__name__] = module
    make_importable()  # for what tasks share
    exec(compile(source, str(path), "exec"), vars(module))
    known = module.__dict__["known"]
    assert isinstance(known, Variants)
    assert known.task == task
    known.package = package
    return known


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
    return all(close(a, b, closeness) for a, b in zip(mine, other, strict=True))
