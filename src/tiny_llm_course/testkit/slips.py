"""The slips of a task's solution and the repairs of a learner's program, and a block in which one may run safely."""

import contextlib
import signal
import tempfile
from collections.abc import Iterator
from functools import partial

from ..course.entities import Task
from ..paths import LEARNER
from ..programs.packages import SOLUTION_NAME, installed
from ..programs.patched import rewritten, sources_of
from ..source.edits import DoesNotApply
from ..source.excerpts import NoSuchCode, code_of
from ..source.repairs import Repair, repairs
from ..source.slips import QUESTIONS, Slip, slips
from .variants import Program, Variant


class Overtime(BaseException):
    """What runs on a slip takes too long."""


def slips_of(task: Task) -> list[Variant]:
    """Return the slips of the solution that can be built, as known programs."""
    sources, own = sources_of(task.target), ""
    with contextlib.suppress(NoSuchCode):
        own = code_of(LEARNER, task.target)

    def made(number: int, slip: Slip) -> Program:
        texts, name = sources | {task.target.file: slip.text}, f"slip {number}"
        try:
            program: Program = rewritten(task.target, texts, SOLUTION_NAME, name)
        except Exception as error:  # a class whose body cannot be run with the slip
            raise DoesNotApply(f"{slip.edit}: {error}") from error
        return program

    found = []
    for number, each in enumerate(slips(sources[task.target.file], own)):
        slip = Variant(each.kind, partial(made, number, each), each.fact, QUESTIONS[each.kind], (each.edit,))
        with contextlib.suppress(DoesNotApply):
            _ = slip.program
            found.append(slip)
    return found


def repairs_of(task: Task) -> Iterator[tuple[Repair, Program]]:
    """Yield the repairs of the learner's program that can be built, each with the program."""
    file = LEARNER / task.target.file
    for number, repair in enumerate(repairs(file.read_text(encoding="utf-8"), task.target.name)):
        try:
            program = rewritten(task.target, {task.target.file: repair.text}, "tiny_llm", f"repair {number}")
        except Exception:  # a class whose body cannot be run with the repair
            continue
        yield repair, program


@contextlib.contextmanager
def installed_safely(task: Task, program: Program, seconds: float) -> Iterator[None]:
    """Run the block on another program, in an empty folder as it may write; raise Overtime when time is up."""
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        installed(task.program, program),
        at_most(seconds),
    ):
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
