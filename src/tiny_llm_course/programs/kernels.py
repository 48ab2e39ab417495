"""Kernels in C++: a package's calls go to libraries with memory checks, which are built on demand.

A week of the registry names the function through which its package calls kernels, `calls = "kernels.native:run"`. It
takes a file's path, the name of a function in it and a list of arguments, and returns the filled buffers. `install`
replaces it in every package: the checked build reports each bad access with its line. Within `fast`, the engine's build
runs instead, once the checked build has passed that function. `launches` does the same for Metal.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from memory_watch.building import Source, build
from memory_watch.compiling import DoesNotCompile
from memory_watch.library import Fresh, Library

from ..course.entities import TASK_ID, Target, Task
from ..course.registry import load_course
from ..course.requirements import compiler
from ..paths import ROOT, SOLUTION
from ..source.edits import DoesNotApply, Edit, changed
from . import parts
from .packages import SOLUTION_NAME, install_patches, program
from .parts import KernelFault, NotBuilt, header_folders

KIND = "kernels"  # of patches
AT_ONCE = 2  # compilers
KEPT = ROOT / ".tiny-llm" / "kernels"  # what is built, by its content
_header_folders = cache(header_folders)
_fast = False
_timed = False
last_called: list[Library] = []  # the one of the last checked call, which has counted its chunks and loads
_caught: set[tuple[str, str]] = set()  # those that have done wrong: no more of them is run unchecked
_let_through: set[tuple[str, str]] = set()  # texts and functions that a checked call has found nothing wrong with


@contextmanager
def fast(edited: bool = False) -> Iterator[None]:
    """Run kernels in the engine's build while the block runs, with `edited` also those with edits."""
    global _fast, _timed
    before = _fast, _timed
    _fast, _timed = True, _timed or edited
    try:
        yield
    finally:
        _fast, _timed = before


def install(borrowed: Iterable[Task] = ()) -> None:
    """Check the kernels of every package imported from now on; borrow some tasks' parts in `tiny_llm`."""
    ways = [(week.calls, week.launches) for week in load_course().weeks]
    calls, launched = ({Target.parse(call) for call in each if call} for each in zip(*ways, strict=True))
    install_patches(KIND, {call.module: partial(_take_over, call, call in launched) for call in (*calls, *launched)})
    for task in borrowed:
        if not task.target.is_python:
            parts.exchange("tiny_llm", task.target, parts.solved_part(task.target))


def install_once() -> None:
    """Install with nothing borrowed, unless it is installed already."""
    if not any(getattr(finder, "kind", "") == KIND for finder in sys.meta_path):
        install()


def run(package: str, source: Path, function: str, arguments: Sequence[Any]) -> list[Any]:
    """Call a kernel and return its filled buffers; raise KernelFault, NotBuilt, or RuntimeError for a stub."""
    file = parts.below_package(source)
    text = parts.with_exchanges(package, file, source.read_text(encoding="utf-8"))
    may = _timed or (_fast and not parts.exchanges.get((package, file)))
    checked = not may or (text, function) not in _let_through - _caught
    fresh = [Fresh(a.shape, a.dtype) if type(a).__name__ == "Result" else a for a in arguments]
    called = library(Source(text, source, _header_folders(source)), checked)
    made, fault = called.call(function, fresh)
    if checked:
        last_called[:] = [called]
    if fault and re.match(rf"{TASK_ID} ", fault.thrown or ""):
        raise RuntimeError(fault.thrown)
    if fault:
        _caught.add((text, function))
        raise KernelFault(fault)
    _let_through.add((text, function))
    return made


@cache
def library(source: Source, checked: bool = True) -> Library:
    """Return the library of a text, built if necessary."""
    return Library(built(source, checked), source)


def built(source: Source, checked: bool) -> Path:
    """Return the file of a text's library; raise NotBuilt if it does not compile."""
    try:
        return build(source, compiler(), KEPT, checked)
    except DoesNotCompile as error:
        raise NotBuilt(str(error)) from error


def prepare(programs: Iterable[Callable[..., Any]]) -> None:
    """Build what some programs of `with_lines` need, two at a time; compile errors surface when they run."""

    def make(target: Target, lines: str) -> None:
        file = SOLUTION / target.file
        text = parts.with_part(file.read_text(encoding="utf-8"), target, lines)
        with suppress(NotBuilt):
            built(Source(text, file), checked=True)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for part in (getattr(program, "part", None) for program in programs):
            if part and part[0].is_cpp:
                pool.submit(make, *part)


def patched(task: Task, edits: Sequence[Edit], package: str) -> Callable[..., Any]:
    """Return a task's program with edits in its kernel; raise DoesNotApply if old words do not occur exactly once."""
    try:
        return with_lines(task, changed(parts.solved_part(task.target), edits), package)
    except DoesNotApply as error:
        raise DoesNotApply(f"{error} in {task.target}, not once") from error


def with_lines(task: Task, lines: str, package: str = SOLUTION_NAME) -> Callable[..., Any]:
    """Return a task's program with these lines as its part; `installed` puts them in other packages, too."""
    original = program(task.program, package)

    @wraps(original)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with parts.exchanged(package, task.target, lines):
            return original(*args, **kwargs)

    kernel.part = task.target, lines  # type: ignore[attr-defined]
    return kernel


def _take_over(call: Target, is_launch: bool, module: ModuleType) -> None:
    """Replace the function of a module through which its package calls or launches kernels."""
    package = module.__name__.partition(".")[0]
    replacement: Callable[..., list[Any]] = partial(run, package)
    if is_launch:
        from . import launches  # and with it MLX, which a command that only builds does without

        replacement = launches.simulated(package, getattr(module, call.name))
    setattr(module, call.name, replacement)
