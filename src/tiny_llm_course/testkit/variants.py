"""Known programs for each task: wrong ones with names, right ones in other words, and probes that tell them apart.

The variants of task 1.1.2 stand beside its day's tests, in `variants_1_1_2.py`, which makes one `Variants("1.1.2")`
called `known`. A wrong program is a change of the solution's text, or decorated: a plain function, or a class for a
task that asks for a class. A probe takes a program and gives what it computes, as an array or a tuple of arrays, on
inputs that it draws itself. One more function builds what `compare` times, on inputs large enough for that.

A wrong program may raise: it is then known by what it raises, in which of the probes. What is told of a learner's
program by means of all this is in `naming`.
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
from typing import Any

import mlx.core as mx

from ..course.nouns import Task
from ..course.places import variants_path
from ..course.registry import load_course
from ..paths import make_importable
from ..programs import kernels
from ..programs.packages import SOLUTION_NAME, program
from ..programs.packages import load_solution as load_solution
from ..programs.patched import patched
from ..source.changed import DoesNotApply, Edit
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
    both: "tuple[Variant, ...]" = ()  # the mistakes of a program that has two at once, or one of them in other words

    @property
    def mistakes(self) -> "tuple[Variant, ...]":
        """The mistakes that the program has."""
        return self.both or (self,)

    @cached_property
    def program(self) -> Program:
        """The program, made when it is first asked for; a DoesNotApply if its changes do not fit the solution."""
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
        self.ways: list[Variant] = []  # the solution in other words
        self.thirds: dict[frozenset[str], str] = {}  # what two mistakes at once come to
        self.size: Size | None = None
        self.untimed = ""  # why nothing is timed
        self.package = SOLUTION_NAME  # of which changes are made
        self.probes: list[Probe] = []
        self._known: dict[tuple[str, int], Outcome | None] = {}

    def wrong(self, name: str, *, fact: str, question: str) -> Callable[[Program], Program]:
        """Decorate a program that must be caught by the task's own tests, and named."""
        return _collect(lambda p: self.wrong_programs.append(Variant(name, lambda: p, fact, question)))

    def change(self, name: str, *edits: Edit, fact: str, question: str) -> None:
        """The same, as a change of the solution: (old text, new text), as `changed` takes them.

        The old text stands once in the target, its private helpers or the file of a given class from which it derives.
        Few mistakes need more than one such pair.
        """
        self.wrong_programs.append(Variant(name, lambda: self.patched(name, edits), fact, question, edits))

    def written(self, way: str, *edits: Edit) -> None:
        """The solution in other words, as a change of it, where mistakes show elsewhere: all are made of it, too."""
        self.ways.append(Variant(way, lambda: self.patched(way, edits), edits=edits))

    def together(self, first: str, second: str, *, makes: str) -> None:
        """Of two mistakes that, made together, are a third one, which is then the one to name."""
        self.thirds[frozenset((first, second))] = makes

    def accepted_change(self, name: str, *edits: Edit) -> None:
        """A right program as a change of the solution: of a kernel in C++, say."""
        self.accepted_programs.append(Variant(name, lambda: self.patched(name, edits), edits=edits))

    def accepted(self, name: str) -> Callable[[Program], Program]:
        """Decorate a program that is right although it is written in another way than the solution."""
        return _collect(lambda p: self.accepted_programs.append(Variant(name, lambda: p)))

    def probe(self, dtype: mx.Dtype = mx.float32) -> Callable[[Program], Program]:
        """Decorate a probe of the task; the dtype it computes in says how closely equal outcomes agree."""
        return _collect(lambda f: self.probes.append(Probe(f, 16 * EPSILON[dtype])))

    def probe_table(self, dtype: mx.Dtype = mx.float32, /, **runs: Program) -> None:
        """Add probes that are one expression each, as a table: name=lambda program: program(...)."""
        for run in runs.values():
            self.probe(dtype)(run)

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
            if not self.task.target.is_python:
                return kernels.patched(self.task, edits, self.package)
            made: Program = patched(self.task.target, edits, self.package, name)
        except DoesNotApply as error:
            raise DoesNotApply(f"the change {name}: {error}") from error
        return made

    @cached_property
    def solution(self) -> Variant:
        """The solution among the known programs, under an empty name."""
        return Variant("", lambda: program(self.task.program, SOLUTION_NAME))

    @cached_property
    def in_other_words(self) -> list[Variant]:
        """The mistakes made of the solution in other words, where these have what a mistake changes."""
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
        """The programs with two of the mistakes at once; whether they can be made is seen when they are.

        None of an open task: what two checks let through is long to find out, and a question is asked about it anyway.
        """
        return [
            Variant(f"{a.name} + {b.name}", partial(self._combined, a, b), both=(a, b))
            for a, b in itertools.combinations([] if self.task.judges else self.wrong_programs, 2)
        ]

    def outcomes(self, subject: Program) -> list[Outcome]:
        """What becomes of a program on each of the probes."""
        return [outcome(probe.run, subject) for probe in self.probes]

    def alike(self, mine: list[Outcome], known: Sequence[Variant], until: float = math.inf) -> list[Variant]:
        """Those of some known programs that have the same outcomes; none if it has computed for too long.

        A program that stops on all probes says too little, and equals nothing.
        """
        alike = [] if all(isinstance(each, Stopped) for each in mine) else list(known)
        for number, each in enumerate(mine):
            alike = [v for v in alike if time.process_time() < until and self.equal(each, v, number)]
        return alike if time.process_time() < until else []

    def equal(self, mine: Outcome, variant: Variant, number: int) -> bool:
        """Whether an outcome on the probe of a number is that of a known program."""
        known = self._outcome(variant, number)
        return known is not None and same(mine, known, self.probes[number].closeness)

    def shows(self, mistake: Variant, number: int) -> bool:
        """Whether a wrong program's outcome on the probe of a number is not the solution's."""
        known = self._outcome(mistake, number)
        return known is None or not self.equal(known, self.solution, number)

    def _outcome(self, variant: Variant, number: int) -> Outcome | None:
        """What becomes of a known program, found out once; None if it cannot be made."""
        key = variant.name, number
        if key not in self._known:
            try:
                self._known[key] = outcome(self.probes[number].run, variant.program)
            except DoesNotApply:  # which `dev check` reports of a single change
                self._known[key] = None
        return self._known[key]

    def _combined(self, first: Variant, second: Variant) -> Program:
        """A program with both mistakes.

        Two changes are made one after the other, two classes derived from the solution's inherit from one another, and
        a function is put inside another one that calls the solution's.

        Raises:
            DoesNotApply: they do not go together.
        """
        if first.edits and second.edits:
            name = f"{first.name} + {second.name}"
            try:
                return self.patched(name, first.edits + second.edits)
            except DoesNotApply:  # perhaps the first one takes away what the second one changes
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
    """A decorator that keeps what it decorates, and leaves it as it is."""

    def decorate(program: Program) -> Program:
        keep(program)
        return program

    return decorate


def load_variants(task: Task, package: str = SOLUTION_NAME) -> Variants:
    """The variants of a task, made of a package: those of `tiny_llm` suffer from faults that are planted there."""
    kernels.install_once()
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
