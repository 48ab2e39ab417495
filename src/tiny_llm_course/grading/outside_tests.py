"""Running the learner's package outside of its tests: what it raises becomes one line and the next command."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..course.nouns import Task
from ..course.registry import UsageError, load_course, with_commands
from ..paths import ROOT, SOLUTION
from ..programs.packages import LearnerError


@contextmanager
def learners_code(package: Path) -> Iterator[None]:
    """What the package raises in the block becomes a LearnerError."""
    try:
        yield
    except (UsageError, LearnerError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: sys.exit() in a file is a mistake like any other
        raise LearnerError(_what_failed(error, package)) from error


def must_be_started(tasks: Sequence[Task], package: Path) -> None:
    """Refuse to run some tasks that are not Python if one of them is a stub: that would end the process.

    Raises:
        LearnerError: one of them is not started.
    """
    from ..source.written import holds_stub

    for task in tasks:
        if holds_stub(task, package):
            raise LearnerError(_not_started(f"not started: {task.label}", task, package))


def _not_started(headline: str, task: Task, package: Path) -> str:
    from ..source.written import where

    place = where(task.target, package.relative_to(ROOT).as_posix())
    return with_commands(f"{headline}, {place} (with --solution, ours runs). Your next step:", "pdm run status")


def _what_failed(error: BaseException, package: Path) -> str:
    from .diagnosis import finding_of, first_line
    from .words import few

    folder = package.relative_to(ROOT).as_posix()
    more = [] if package == SOLUTION else ["What the tests say of it:", "pdm run test"]
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(package):
        file = Path(error.filename).relative_to(ROOT).as_posix()
        return with_commands(f"{file}:{error.lineno} is not Python: {error.msg}", *more)
    finding = finding_of(error, package)
    if finding.blocker:
        return _not_started(finding.headline, load_course().task(finding.blocker), package)
    if finding.frames or isinstance(error, AttributeError):  # the latter: a file lacks a name
        what = "\n  ".join([f"{folder}: {finding.headline}", *few(finding.frames)])
    else:
        what = f"{folder} gave the engine what it cannot use: {type(error).__name__}: {first_line(error)}"
    return with_commands(what, *more)
