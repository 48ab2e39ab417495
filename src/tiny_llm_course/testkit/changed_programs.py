"""The slips of a task's solution and the repairs of a learner's program, and a block in which one may run safely."""

import contextlib
import signal
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from ..course.entities import Task
from ..paths import LEARNER
from ..programs.packages import SOLUTION_NAME, installed
from ..programs.patched import rewritten, sources_of
from ..source.excerpts import NoSuchCode, code_of
from ..source.repairs import Method, Repair, repairs, with_our_methods
from ..source.slips import Slip, slips
from .variants import Program


class Overtime(BaseException):
    """What runs on a slip takes too long."""


Changed = TypeVar("Changed", Slip, Repair, Method)


def slips_of(task: Task) -> Iterator[tuple[Slip, Program]]:
    """Yield the slips of the solution that can be built, each with the program."""
    sources, own = sources_of(task.target), ""
    with contextlib.suppress(NoSuchCode):
        own = code_of(LEARNER, task.target)
    return _built(task, slips(sources[task.target.file], own), sources, SOLUTION_NAME)


def repairs_of(task: Task, within: range | None = None) -> Iterator[tuple[Repair, Program]]:
    """Yield the repairs of the learner's program that can be built, each with the program, in some lines if given."""
    return _built(task, repairs(*_texts(task), within), {}, "tiny_llm")


def with_our_methods_of(task: Task) -> Iterator[tuple[Method, Program]]:
    """Yield the learner's class with one method of the solution's, once for each."""
    return _built(task, with_our_methods(*_texts(task)), {}, "tiny_llm")


def _texts(task: Task) -> tuple[str, str, str]:
    text, ours = (LEARNER / task.target.file).read_text(encoding="utf-8"), sources_of(task.target)[task.target.file]
    return text, task.target.name, ours


def _built(
    task: Task, found: Iterable[Changed], sources: Mapping[str, str], package: str
) -> Iterator[tuple[Changed, Program]]:
    """Yield programs one at a time: each is gone when the next one is built."""
    for each in found:
        try:
            program = rewritten(task.target, {**sources, task.target.file: each.program}, package, "changed")
        except Exception:  # a class whose body cannot be run with the change
            continue
        yield each, program


@contextlib.contextmanager
def folder_apart() -> Iterator[None]:
    """Run the block in a temporary folder, as what runs there may write anywhere."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        yield


@contextlib.contextmanager
def installed_for(seconds: float, task: Task, program: Program) -> Iterator[None]:
    """Run the block with another program for a task; raise Overtime when time is up."""
    with installed(task.program, program), at_most(seconds):
        yield


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise Overtime in the block, and again each second while it is not left."""
    inside = [True]

    def stop(*_: object) -> None:
        if inside:  # not in what puts things back after the block
            raise Overtime

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
        try:
            yield
        finally:
            inside.clear()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
