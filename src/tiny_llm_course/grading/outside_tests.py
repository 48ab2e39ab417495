"""Running the learner's package outside of its tests: what it raises becomes one line and the next command."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def _what_failed(error: BaseException, package: Path) -> str:
    from ..source.written import where
    from .diagnosis import finding_of, first_line
    from .words import few

    folder = package.relative_to(ROOT).as_posix()
    more = [] if package == SOLUTION else ["What the tests say of it:", "pdm run test"]
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(package):
        file = Path(error.filename).relative_to(ROOT).as_posix()
        return with_commands(f"{file}:{error.lineno} is not Python: {error.msg}", *more)
    finding = finding_of(error, package)
    if finding.blocker:
        place = where(load_course().task(finding.blocker).target, folder)
        what = f"{finding.headline}, {place} (with --solution, ours runs). Your next step:"
        return with_commands(what, "pdm run status")
    if finding.frames or isinstance(error, AttributeError):  # the latter: a file lacks a name
        what = "\n  ".join([f"{folder}: {finding.headline}", *few(finding.frames)])
    else:
        what = f"{folder} gave the engine what it cannot use: {type(error).__name__}: {first_line(error)}"
    return with_commands(what, *more)
