"""Known programs for each task: wrong ones with names, right ones written in other ways, and probes between them.

`variants_1_1_2.py`, beside the day's tests, creates `known = Variants("1.1.2")`. A wrong program is a change of the
solution's text, or a decorated function or class. A probe runs a program on inputs of its own and returns an array or a
tuple of arrays. `naming` uses them to find a learner's mistake.
"""

import contextlib
import dataclasses
import itertools
import math
import sys
import time
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import mlx.core as mx

from ..course.entities import Task
from ..course.file_paths import variants_path
from ..course.registry import load_course
from ..paths import make_importable
from ..programs import kernels
from ..programs.packages import SOLUTION_NAME, program
from ..programs.packages import load_solution as load_solution
from ..programs.patched import patched
from ..source.edits import DoesNotApply, Edit
from .outcomes import Outcome, Stopped, outcome, same
from .outcomes import Program as Program
from .rounding import EPSILON


@dataclasses.dataclass(frozen=True)
class Variant:
    """One known program. `fact` completes "Your output equals what you get when"; `question` never gives the fix."""

    name: str
    make: Callable[[], Program]
    fact: str = ""
    question: str = ""
    edits: tuple[Edit, ...] = ()  # of the solution's text; none for a program that is written out
    differs: bool = False  # a right program with other results than the solution's on a probe
    both: "tuple[Variant, ...]" = ()  # the mistakes of a program with two at once, or with one in a reworded solution

    @property
    def mistakes(self) -> "tuple[Variant, ...]":
        """The mistakes that the program has."""
        return self.both or (self,)

    @cached_property
    def program(self) -> Program:
        """The program, built on first use; raises DoesNotApply if its changes do not fit the solution."""
        return self.make()


class Probe(NamedTuple):
    """What to run a program on, and how far equal outcomes may differ, as a share of the largest number."""

    run: Callable[[Program], Any]
    closeness: float  # wide enough for sums taken in another order; different programs differ by much more


class Size(NamedTuple):
    """What a task's programs are timed on, in words, and how to build the function to time."""

    words: str
    build: Callable[[Program], Callable[[], Any]]


class Variants:
    """The programs and probes of one task, collected by its methods."""

    def __init__(self, task: str) -> None:
        self.task = load_course().task(task)
        self.wrong_programs: list[Variant] = []
        self.accepted_programs: list[Variant] = []
        self.ways: list[Variant] = []  # rewordings of the solution
        self.thirds: dict[frozenset[str], str] = {}  # the third mistake that two together make
        self.size: Size | None = None
        self.untimed = ""  # why nothing is timed
        self.package = SOLUTION_NAME  # that changes are applied to
        self.probes: list[Probe] = []
        self._known: dict[tuple[str, int], Outcome | None] = {}

    def wrong(self, name: str, *, fact: str, question: str) -> Callable[[Program], Program]:
        """Decorate a program that the task's own tests must catch, and the diagnosis name."""
        return _collect(lambda p: self.wrong_programs.append(Variant(name, lambda: p, fact, question)))

    def change(self, name: str, *edits: Edit, fact: str, question: str) -> None:
        """Add such a program as changes of the solution, (old text, new text), where the old text occurs once."""
        self.wrong_programs.append(Variant(name, lambda: self.patched(name, edits), fact, question, edits))

    def written(self, way: str, *edits: Edit) -> None:
        """Add a rewording of the solution, in which mistakes show elsewhere: every change is applied to it, too."""
        self.ways.append(Variant(way, lambda: self.patched(way, edits), edits=edits))

    def together(self, first: str, second: str, *, makes: str) -> None:
        """Declare that two mistakes made together are a third one, which is then the one to name."""
        self.thirds[frozenset((first, second))] = makes

    def accepted_change(self, name: str, *edits: Edit) -> None:
        """Add a right program as a change of the solution."""
        self.accepted_programs.append(Variant(name, lambda: self.patched(name, edits), edits=edits))

    def accepted(self, name: str, *, differs: bool = False) -> Callable[[Program], Program]:
        """Decorate a right program that is written in another way than the solution.

        It must have the solution's results on the probes, or mistakes in a program of its style get no name: `differs`
        where a task allows several results.
        """
        return _collect(lambda p: self.accepted_programs.append(Variant(name, lambda: p, differs=differs)))

    def probe(self, dtype: mx.Dtype = mx.float32) -> Callable[[Program], Program]:
        """Decorate a probe of the task; the dtype it computes in says how closely equal outcomes agree."""
        return _collect(lambda f: self.probes.append(Probe(f, 16 * EPSILON[dtype])))

    def probe_table(self, dtype: mx.Dtype = mx.float32, /, **runs: Program) -> None:
        """Add probes that are one expression each, as a table: name=lambda program: program(...)."""
        for run in runs.values():
            self.probe(dtype)(run)

    def sized(self, words: str) -> Callable[[Program], Program]:
        """Decorate a function that builds what is timed, with untimed inputs that `words` describe: "x 64 x 4,096"."""
        return _collect(lambda build: setattr(self, "size", Size(words, build)))

    def not_timed(self, why: str) -> None:
        """Say why there is nothing to time, as in "a table of 256 entries"."""
        self.untimed = why

    def patched(self, name: str, edits: Sequence[Edit]) -> Program:
        """Return the solution with changes in its text; raise DoesNotApply, with the name, if one does not fit."""
        try:
            if not self.task.target.is_python:
                return kernels.patched(self.task, edits, self.package)
            made: Program = patched(self.task.target, edits, self.package, name)
        except DoesNotApply as error:
            raise DoesNotApply(f"the change {name}: {error}") from error
        return made

    @cached_property
    def solution(self) -> Variant:
        """The solution as a known program, with an empty name."""
        return Variant("", lambda: program(self.task.program, SOLUTION_NAME))

    @cached_property
    def in_other_words(self) -> list[Variant]:
        """The mistakes applied to the rewordings of the solution, where their changes fit."""
        found = []
        for way, mistake in itertools.product(self.ways, [mistake for mistake in self.wrong_programs if mistake.edits]):
            name = f"{mistake.name} {way.name}"
            other = Variant(name, partial(self.patched, name, way.edits + mistake.edits), both=(mistake,))
            with contextlib.suppress(DoesNotApply):
                _ = other.program
                found.append(other)
        return found

    @cached_property
    def pairs(self) -> list[Variant]:
        """The programs with two mistakes at once, built on demand; none for an open task, where that takes too long."""
        both = itertools.combinations([] if self.task.judges else self.wrong_programs, 2)
        return [Variant(f"{a.name} + {b.name}", partial(self._combined, a, b), both=(a, b)) for a, b in both]

    def outcomes(self, subject: Program | Variant) -> list[Outcome]:
        """Return a program's outcome on each of the probes; a known program's are computed once."""
        if isinstance(subject, Variant):
            return [found for n in range(len(self.probes)) if (found := self._outcome(subject, n)) is not None]
        return [outcome(probe.run, subject) for probe in self.probes]

    def alike(self, mine: list[Outcome], known: Sequence[Variant], until: float = math.inf) -> list[Variant]:
        """Return the known programs with the same outcomes on all probes; none if all raise, or at CPU time `until`."""
        alike = [] if all(isinstance(each, Stopped) for each in mine) else list(known)
        for number in sorted(range(len(mine)), key=lambda n: self.equal(mine[n], self.solution, n)):  # few err alike
            alike = [v for v in alike if time.process_time() < until and self.equal(mine[number], v, number)]
        return alike if time.process_time() < until else []

    def equal(self, mine: Outcome, variant: Variant, number: int) -> bool:
        """Return whether an outcome on this probe equals a known program's."""
        known = self._outcome(variant, number)
        return known is not None and same(mine, known, self.probes[number].closeness)

    def shows(self, mistake: Variant, number: int) -> bool:
        """Return whether a wrong program's outcome on this probe differs from the solution's."""
        known = self._outcome(mistake, number)
        return known is None or not self.equal(known, self.solution, number)

    def _outcome(self, variant: Variant, number: int) -> Outcome | None:
        """Return a known program's outcome, computed once; None if it cannot be built."""
        key = variant.name, number
        if key not in self._known:
            try:
                self._known[key] = outcome(self.probes[number].run, variant.program)
            except DoesNotApply:  # `dev check` reports it for a single change
                self._known[key] = None
        return self._known[key]

    def _combined(self, first: Variant, second: Variant) -> Program:
        """Return a program with both mistakes; raise DoesNotApply if they cannot be combined.

        Two changes are both applied, two classes inherit from each other, a function calls another one for the
        solution's.
        """
        if first.edits and second.edits:
            name = f"{first.name} + {second.name}"
            try:
                return self.patched(name, first.edits + second.edits)
            except DoesNotApply:  # perhaps the first removes what the second changes
                return self.patched(name, second.edits + first.edits)
        original = program(self.task.program, self.package)
        for one, other in ((first, second), (second, first)):
            a, b = one.program, other.program
            if isinstance(a, type) and isinstance(b, type) and not (one.edits or other.edits):
                try:
                    return type("Both", (a, b), {})
                except TypeError:  # no order of their methods fits both
                    continue
            if isinstance(a, FunctionType) and not one.edits:
                inner = {name: b for name in a.__code__.co_names if a.__globals__.get(name) is original}
                if inner:
                    both = FunctionType(a.__code__, a.__globals__ | inner, a.__name__, a.__defaults__, a.__closure__)
                    both.__kwdefaults__ = a.__kwdefaults__
                    return both
        raise DoesNotApply(f"{first.name} and {second.name} do not go together")


def _collect(keep: Callable[[Program], None]) -> Callable[[Program], Program]:
    def decorate(program: Program) -> Program:
        keep(program)
        return program

    return decorate


def load_variants(task: Task, package: str = SOLUTION_NAME) -> Variants:
    """Return the variants of a task, built on a package: those of `tiny_llm` include faults injected there."""
    kernels.install_once()
    if package == SOLUTION_NAME:
        load_solution()
    path = variants_path(task)
    module = ModuleType(f"{package}.{path.stem}")
    source = path.read_text(encoding="utf-8").replace(SOLUTION_NAME, package)
    sys.modules[module.__name__] = module
    make_importable()  # tests/, for what tasks share
    exec(compile(source, str(path), "exec"), vars(module))
    known = module.__dict__["known"]
    assert isinstance(known, Variants)
    assert known.task == task
    known.package = package
    return known
