"""Build the part of a package that is not Python, before its tests run and outside their time limit.

A week of the registry names the program, `build = "extension/build.py"`. It runs beside its sources as `python build.py
FOLDER`, with the compiler in CXX, and replaces the result in FOLDER, `.build`, atomically: another process may use it.
A change of a source, the compiler, Python or MLX triggers a rebuild.
"""

import fcntl
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from threading import Event, current_thread, main_thread

from ..course.entities import Task
from ..course.findings import Finding, Kind
from ..course.registry import LearnerError, UsageError, load_course
from ..course.requirements import compiler, missing
from ..doctor.checkout import BUILT_FROM, not_written
from ..learner import progress
from ..paths import ROOT, SOLUTION
from ..terminal.screen import say
from . import compiling
from .processes import run_command

SECONDS = 300.0  # time limit of a build
MEMORY = 8 << 30
# Not LC_ALL, with which Python could not read the path of a checkout that is not ASCII.
IN_ENGLISH = {"LC_ALL": "", "LC_MESSAGES": "C", "LC_CTYPE": os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE", "")}
COPY = "sources"  # folder of the copy with borrowed parts, beside the build's result


def build_for(
    tasks: Sequence[Task], packages: Iterable[Path], cancelled: Event | None = None, alone: bool = True
) -> dict[str, Finding]:
    """Build what some tasks need, only compiling kernels that can be called `alone`; return the failures by task id."""
    packages = list(packages)
    kernels = [task for task in tasks if alone and compiling.is_called_alone(task)]
    found: dict[str, Finding] = {}
    try:
        found |= compiling.compiled(kernels, packages) | compiling.without_simulator(tasks)
        why = not_written(progress.FILE.parent) if found else ""  # the compiler cannot say it
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise UsageError(f"{progress.FILE.parent} cannot be written: {why}. To find out more:", "pdm run doctor")
    wanted = {task.id: recipes(task) for task in tasks if task not in kernels}
    for recipe in dict.fromkeys(recipe for names in wanted.values() for recipe in names):
        failures = (build(package, recipe, cancelled=cancelled) for package in packages)
        if failure := next(filter(None, failures), None):
            found |= {task: failure for task, names in wanted.items() if recipe in names}
    return found


def must_be_built(tasks: Sequence[Task], package: Path) -> None:
    """Build what some tasks need, and the solution if borrowed Python needs it; raise LearnerError on failure."""
    # A borrowed part in another language is built into the learner's package.
    borrowed = [] if package == SOLUTION else [task for task in progress.on_reference() if task.target.is_python]
    used = {each for task in tasks for each in (*load_course().needs(task.id), task.id)}
    found = build_for(tasks, [package], alone=False)
    found = found or build_for([task for task in borrowed if task.id in used], [SOLUTION], alone=False)
    for finding in found.values():
        raise LearnerError("\n  ".join([finding.headline, *finding.lines]))


def recipes(task: Task) -> list[str]:
    """Return the build programs of a task and of the tasks it needs that require a compiler, if it can be built."""
    course = load_course()
    used = [*map(course.task, course.needs(task.id)), task]
    weeks = dict.fromkeys(course.week(each.week) for each in used if "compiler" in each.requires)
    found = list(dict.fromkeys(week.build for week in weeks if week.build))  # two weeks may name the same program
    return found if found and not missing([*task.requires, "compiler"]) else []


def build(package: Path, recipe: str, *, seconds: float = SECONDS, cancelled: Event | None = None) -> Finding | None:
    """Build one package if it has changed; return the finding if that fails."""
    program = package / recipe
    folder = program.parent.relative_to(ROOT).as_posix()
    try:
        out = program.parent / ".build"
        out.mkdir(exist_ok=True)
        with (out / "lock").open("wb") as lock, tempfile.TemporaryFile() as output:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one build at a time in this folder
            state, built_from = _state(package, program), out / BUILT_FROM
            if built_from.is_file() and built_from.read_text(encoding="utf-8") == state:
                return None
            built_from.unlink(missing_ok=True)
            folder_to_build = _sources(package, program.parent, out)
            if current_thread() is main_thread():  # other threads must not write over a screen
                say(f"Building {folder} ...", err=True)
            why = run_command(
                [sys.executable, str(folder_to_build / program.name), str(out)],
                seconds,
                MEMORY,
                folder=folder_to_build,
                environment={"CXX": shlex.join(compiler()), **IN_ENGLISH},
                output=output,
                cancelled=cancelled,
            )
            if not why:
                built_from.write_text(state, encoding="utf-8")
                return None
            output.seek(0)
            words = output.read().decode(errors="replace")
    except OSError as error:
        return Finding(Kind.NOT_BUILT, f"{folder} cannot be built: {error}", place=folder)
    if why.startswith(("still", "used")):
        return Finding(Kind.NOT_BUILT, f"{folder} cannot be built: {why}, the limit of a build", place=folder)
    return compiling.complaint(words, program.parent) or compiling.last_words(words, folder, why)


def _state(package: Path, program: Path) -> str:
    """Return what the result depends on: MLX's version, which comes first, and a hash of everything."""
    asked = subprocess.run([*compiler(), "--version"], capture_output=True, text=True).stdout
    own = [*compiler(), asked, version("mlx"), sys.implementation.cache_tag, platform.machine()]
    own += [part for task, lines in compiling.borrowed_parts(package, program.parent) for part in (task.id, lines)]
    digest = hashlib.sha256("\0".join(map(str, own)).encode())
    for file in sorted(program.parent.rglob("*")):
        name = file.relative_to(program.parent)
        hidden = any(part.startswith((".", "__pycache__")) for part in name.parts)
        if file.is_file() and not hidden and (file == program or file.suffix != ".py"):
            digest.update(f"{name.as_posix()}\0{hashlib.sha256(file.read_bytes()).hexdigest()}".encode())
    return f"mlx {version('mlx')} {digest.hexdigest()}"


def _sources(package: Path, folder: Path, out: Path) -> Path:
    """Return the folder to build in, or a copy with the borrowed parts, whose lines keep the file's name."""
    files = {package / task.target.file for task, _ in compiling.borrowed_parts(package, folder)}
    if not files:
        return folder
    copy = out / COPY
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    for file in files:
        text = f'#line 1 "{file}"\n{compiling.with_borrowed_parts(package, file)}'
        (copy / file.relative_to(folder)).write_text(text, encoding="utf-8", errors="surrogateescape")
    return copy
