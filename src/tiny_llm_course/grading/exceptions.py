"""Describe an exception to the learner: as the finding of a graded test, or as one line where no test runs."""

import contextlib
import dataclasses
import io
import itertools
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

from memory_watch.faults import Line

from ..course.entities import TASK_ID, Task
from ..course.file_paths import module_path
from ..course.findings import WIDTH, CheckFailed, Finding, Kind, few, message_of, shortened
from ..course.registry import LearnerError, UsageError, load_course, with_commands
from ..paths import ROOT, SOLUTION
from ..programs import kernels
from ..programs.packages import SOLUTION_NAME, NotImportable
from ..programs.parts import KernelFault
from ..source.code import holds_stub, where
from ..testkit.cases import CASE_NOTE, shape_words
from ..testkit.errors import course_fault, of_the_course
from . import returns
from .compiling import source_line

SUGGESTION = re.compile(r"\. Did you [^\x1b\n]*")
MISSING = re.compile(r"cannot import name '(\w+)' from 'tiny_llm\.([\w.]+)'")


def finding_of(error: BaseException, package: Path) -> Finding:
    """Return the finding for an exception; `package` is the graded one, whose lines are the learner's."""
    if isinstance(error, CheckFailed):
        cause = error.__cause__ if error.finding.kind == Kind.MISJUDGED else None
        if not cause:
            return returns.asked(error.finding)
        # A check of the learner's stops a right program: add what it raises.
        lines = (*error.finding.lines, _raised(cause, package))
        return dataclasses.replace(error.finding, lines=lines, frames=learner_frames(cause, package))
    if isinstance(error, NotImportable):
        return _not_importable(error, package)
    frames = learner_frames(error, package)
    if isinstance(error, BaseExceptionGroup) and not frames:  # hypothesis: the same inputs gave different answers
        return dataclasses.replace(finding_of(error.exceptions[0], package), indirect=True)
    if task := _stub_of(error):
        what = error if isinstance(error, NotImplementedError) else task.label
        return Finding(Kind.NOT_STARTED, f"not started: {what}", blocker=task.id)
    name = type(error).__name__
    case = next((n.removeprefix(CASE_NOTE) for n in getattr(error, "__notes__", []) if n.startswith(CASE_NOTE)), "")
    if isinstance(error, KernelFault):
        return finding_of_fault(error, case, package)
    if isinstance(error, SystemExit):
        return Finding(Kind.STOPPED, f"your code left the program with sys.exit({error.code!r})", frames=frames)
    if frames:
        lines = returns.missing(error, package)
        return Finding(Kind.RAISED, _raised(error, package), lines, case=case, frames=frames)
    if what := returns.nothing(error):
        return Finding(Kind.RAISED, what, case=case)
    if of_the_course(error):
        return course_fault(error, case)
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        file = module_path(package, error.obj.__name__.partition(".")[2])
        return Finding(Kind.NO_IMPORT, f"{file.relative_to(ROOT).as_posix()} defines no {error.name}")
    if isinstance(error, TypeError) and "argument" in str(error) and "incompatible" not in str(error):  # nanobind
        return Finding(Kind.RAISED, f"cannot be called with its original signature: {first_line(error)}", case=case)
    if isinstance(error, TypeError) and "not callable" in str(error):
        return Finding(Kind.RAISED, f"cannot be called: {first_line(error)}", case=case)
    # Not in the learner's lines: MLX evaluating what they returned, or a check that could not handle it.
    return Finding(Kind.RAISED, f"{name} after your code returned: {first_line(error)}", case=case, indirect=True)


def _raised(error: BaseException, package: Path) -> str:
    """Return what the learner's lines raised, with the source of a bare assert, and a hint for input()."""
    said, line = first_line(error), next((frame.line or "" for frame in _own(error, package)[::-1]), "")
    if isinstance(error, EOFError) and "input(" in line:
        return "asks for input(), and there is no terminal to answer on"
    if isinstance(error, AssertionError) and not said and line.startswith("assert"):
        said = shortened(line)
    return f"raised {type(error).__name__}: {said}".rstrip(": ")


def _stub_of(error: BaseException) -> Task | None:
    """Return the task whose stub raised an error, by the id that begins the message, or that a compiler quotes."""
    if not isinstance(error, RuntimeError):
        return None
    in_python = isinstance(error, NotImplementedError)
    match = re.search(rf"^({TASK_ID})" if in_python else rf'(?:^|")({TASK_ID}) ', str(error))
    tasks = [task for task in load_course().tasks() if in_python or not task.target.is_python]
    return next((task for task in tasks if match and task.id == match[1]), None)


def _not_importable(error: NotImportable, package: Path) -> Finding:
    cause = error.cause
    if isinstance(cause, Finding):
        return cause
    path = module_path(package, error.module)
    file = path.relative_to(ROOT).as_posix()
    if isinstance(cause, str):
        return Finding(Kind.NO_IMPORT, f"{file} cannot be imported: {cause}", place=file)
    if isinstance(cause, SyntaxError):
        source = Path(cause.filename) if cause.filename else path
        if source.is_relative_to(package):  # perhaps a file that this one imports
            place = source.relative_to(ROOT).as_posix() + (f":{cause.lineno}" if cause.lineno else "")
            lines = (shortened(cause.text.strip()),) if cause.text else ()
            return Finding(Kind.NO_IMPORT, f"{place} is not Python: {cause.msg}", lines, place=place)
    if missing := _missing(cause, package):
        return missing
    frames = learner_frames(cause, package)
    # The file whose lines raised: perhaps one that this one imports.
    tried = [frame for frame in _own(cause, package) if frame.name == "<module>"]
    place = f"{_relative(tried[-1])}:{tried[-1].lineno}" if tried else file
    file = place.partition(":")[0]
    if isinstance(cause, SystemExit):
        headline = f"{file} calls sys.exit({cause.code!r}) while it is imported"
        return Finding(Kind.NO_IMPORT, headline, frames=frames, place=place)
    what = "" if isinstance(cause, CheckFailed) else f"{type(cause).__name__}: "
    return Finding(Kind.NO_IMPORT, f"{file} cannot be imported: {what}{first_line(cause)}", frames=frames, place=place)


def _missing(error: BaseException, package: Path) -> Finding | None:
    """Return the finding for an import of a name that a task should have defined: that task is at fault."""
    match = MISSING.match(str(error)) if isinstance(error, ImportError) else None
    for task in load_course().tasks() if match else ():
        if match and (task.program.name, task.program.module) == match.groups():
            file = (package / task.program.file).relative_to(ROOT).as_posix()
            frames = learner_frames(error, package)
            return Finding(Kind.NO_IMPORT, f"{file} defines no {task.program.name}", frames=frames, blocker=task.id)
    return None


def learner_frames(error: BaseException, package: Path) -> tuple[str, ...]:
    """Return the graded package's lines in the traceback, innermost last: `src/tiny_llm/basics.py:12  code`."""
    own = _own(error, package)
    lines = [shortened(f"{_relative(frame)}:{frame.lineno}  {frame.line or ''}".rstrip()) for frame in own]
    return tuple(line for line, _ in itertools.groupby(lines))  # a comprehension has a frame of its own


def _own(error: BaseException, package: Path) -> list[traceback.FrameSummary]:
    return [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).is_relative_to(package)]


def _relative(frame: traceback.FrameSummary) -> str:
    return Path(frame.filename).relative_to(ROOT).as_posix()


def first_line(error: BaseException) -> str:
    """Return the first non-empty line of an error's message, with relative paths and shortened objects."""
    beginning = _with_short_objects(error)[: 100 * WIDTH].strip()  # it may have a hundred million characters
    line = (beginning.splitlines() or [""])[0].replace(f"{ROOT}{os.sep}", "")
    return shortened(line + _suggestion(error))


def _with_short_objects(error: BaseException) -> str:
    """Return an error's message with the course's own objects in it named: \"Request 3\" for its long repr."""
    message = message_of(error)
    for each in error.args:
        if type(each).__module__.partition(".")[0] in ("tiny_llm", SOLUTION_NAME) and isinstance(error, LookupError):
            name = f"{type(each).__name__} {getattr(each, 'request_id', '')}".removesuffix(" -1").rstrip()
            preempted = getattr(each, "output", ()) and getattr(each, "num_computed_tokens", 1) == 0
            message = message.replace(repr(each), f"{name}{' (preempted)' * bool(preempted)} is not a key")
    return message


def _suggestion(error: BaseException) -> str:
    """Return Python's ". Did you mean: 'query'?", which it computes only when it prints an error."""
    if not isinstance(error, NameError | AttributeError | ImportError):
        return ""
    with contextlib.redirect_stderr(io.StringIO()) as printed, contextlib.suppress(Exception):
        sys.__excepthook__(type(error), error, error.__traceback__)
    found = SUGGESTION.findall(printed.getvalue())
    return found[-1] if found else ""


def finding_of_fault(error: KernelFault, case: str, package: Path) -> Finding:
    """Return the finding for a kernel's fault, with the package's own lines in its traceback."""
    fault = error.fault
    own = [line for line in fault.lines if line.file.is_relative_to(package)]
    own = [line for line in own if line.file.suffix != ".h"] or own  # not a given header's lines
    place = f"{_place(own[-1])} " if own else ""
    headline, frames = shortened(f"{place}{fault.what}"), tuple(dict.fromkeys(map(_shown, own)))
    if fault.what.startswith("does not compile"):
        return Finding(Kind.NOT_BUILT, headline, frames[-1:], place=place.strip())
    who = "thread" if own and own[-1].file.suffix == ".metal" else "chunk"
    lines = (f"the other {who} is at {_shown(fault.other)}",) if fault.other else ()
    return Finding(Kind.MEMORY, headline, (*error.notes, *lines), case=case or _call_of(error), frames=frames)


def _call_of(error: KernelFault) -> str:
    """Return the kernel's call in words, for a check that notes no case."""
    calls = [f.f_locals for f, _ in traceback.walk_tb(error.__traceback__) if f.f_code is kernels.run.__code__]
    if not calls:
        return ""
    given = (f"{v.dtype} {shape_words(v.shape)}" if hasattr(v, "shape") else str(v) for v in calls[-1]["arguments"])
    return shortened(f"{calls[-1]['function']}({', '.join(given)})")


def _place(line: Line) -> str:
    file = line.file.relative_to(ROOT) if line.file.is_relative_to(ROOT) else line.file
    return f"{file.as_posix()}:{line.number}"


def _shown(line: Line) -> str:
    return shortened(f"{_place(line)}  {source_line(line.file, line.number)}".rstrip())


@contextlib.contextmanager
def learners_code(package: Path) -> Iterator[None]:
    """Turn what the package raises in the block into a LearnerError."""
    try:
        yield
    except (UsageError, LearnerError, GeneratorExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # SystemExit too: sys.exit() in a file is a mistake like any other
        raise LearnerError(_what_failed(error, package)) from error


def must_be_started(tasks: Sequence[Task], package: Path) -> None:
    """Raise LearnerError if one of these tasks that are not Python is a stub: running it would end the process."""
    for task in tasks:
        if holds_stub(task, package):
            raise LearnerError(_not_started(f"not started: {task.label}", task, package))


def _not_started(headline: str, task: Task, package: Path) -> str:
    place = where(task.target, package.relative_to(ROOT).as_posix())
    return with_commands(f"{headline}, {place} (with --solution, ours runs). Your next step:", "pdm run status")


def _what_failed(error: BaseException, package: Path) -> str:
    folder = package.relative_to(ROOT).as_posix()
    more = [] if package == SOLUTION else ["What the tests say:", "pdm run test"]
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_relative_to(package):
        file = Path(error.filename).relative_to(ROOT).as_posix()
        return with_commands(f"{file}:{error.lineno} is not Python: {error.msg}", *more)
    finding = finding_of(error, package)
    if finding.blocker:
        return _not_started(finding.headline, load_course().task(finding.blocker), package)
    if finding.frames or isinstance(error, AttributeError):  # the latter: a file lacks a name
        what = "\n  ".join([f"{folder}: {finding.headline}", *few(finding.frames)])
    else:
        what = f"{folder} gave the engine something that it cannot use: {type(error).__name__}: {first_line(error)}"
    return with_commands(what, *more)
