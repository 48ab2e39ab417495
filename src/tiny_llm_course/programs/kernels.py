"""Kernels: a package's calls of those in C++ go to libraries that are watched, and built when they are needed.

A week of the registry names the function through which its package calls them, `calls = "kernels.native:run"`. It takes
the path of a file, the name of a function in it and a list of arguments, and gives a list of what the function has
filled. `install` puts another one in its place, for every package that is imported: it calls the checked build, which
says of each access that must not be at which line it is. Within `fast` it calls the build that an engine runs, once the
checked one has let that function through. Those in Metal have a function of their own, and `launches` takes its place.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from memory_watch.building import Source, build
from memory_watch.compiling import DoesNotCompile
from memory_watch.library import Fresh, Library

from ..course.nouns import TASK_ID, Target, Task
from ..course.registry import load_course
from ..course.requirements import compiler
from ..paths import ROOT, SOLUTION
from ..source.changed import DoesNotApply, Edit, changed
from . import parts
from .packages import SOLUTION_NAME, program
from .parts import KernelFault, NotBuilt

AT_ONCE = 2  # compilers
KEPT = ROOT / ".tiny-llm" / "kernels"  # what is built, by its content
_fast = False
_timed = False
_last: list[Library] = []  # the one of the last checked call
_caught: set[tuple[str, str]] = set()  # those that have done wrong: no more of them is run unchecked
_let_through: set[tuple[str, str]] = set()  # texts and functions that a checked call has found nothing wrong with


@contextmanager
def fast() -> Iterator[None]:
    """While the block runs, kernels that lie in a file are the build that an engine runs."""
    global _fast
    before, _fast = _fast, True
    try:
        yield
    finally:
        _fast = before


@contextmanager
def timed() -> Iterator[None]:
    """The same, also of kernels with changes."""
    global _timed
    before, _timed = _timed, True
    try:
        with fast():
            yield
    finally:
        _timed = before


def install(borrowed: Iterable[Task] = ()) -> None:
    """Watch the kernels of every package that this process imports from now on; of `tiny_llm`, borrow some parts."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    if (finder := _Finder()).names:
        sys.meta_path.insert(0, finder)
    for task in borrowed:
        if not task.target.is_python:
            parts.exchange("tiny_llm", task.target, parts.solved_part(task.target))


def install_once() -> None:
    """Watch them, if nobody has said yet what is borrowed."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        install()


def run(package: str, source: Path, function: str, arguments: Sequence[Any]) -> list[Any]:
    """Call a kernel of a package; what it has filled.

    Raises:
        KernelFault, NotBuilt: it did wrong, or does not compile.
        RuntimeError: it is a stub, which throws its task's label.
    """
    file = parts.below_package(source)
    text = parts.with_exchanges(package, file, source.read_text(encoding="utf-8"))
    may = _timed or (_fast and not parts.is_exchanged(package, file))
    checked = not may or (text, function) not in _let_through - _caught
    fresh = [Fresh(a.shape, a.dtype) if type(a).__name__ == "Result" else a for a in arguments]
    called = library(Source(text, source), checked)
    made, fault = called.call(function, fresh)
    if checked:
        _last[:] = [called]
    if fault and re.match(rf"{TASK_ID} ", fault.thrown or ""):
        raise RuntimeError(fault.thrown)
    if fault:
        _caught.add((text, function))
        raise KernelFault(fault)
    _let_through.add((text, function))
    return made


def chunks() -> int:
    """Into how many chunks the last checked call has divided its largest loop; 0 if it has divided none."""
    return _last[0].chunks if _last else 0


@cache
def library(source: Source, checked: bool = True) -> Library:
    """The library of a text, built if it is not there."""
    return Library(built(source, checked), source)


def built(source: Source, checked: bool) -> Path:
    """The file of a text's library; a NotBuilt if it does not compile."""
    try:
        return build(source, compiler(), KEPT, checked)
    except DoesNotCompile as error:
        raise NotBuilt(str(error)) from error


def prepare(programs: Iterable[Callable[..., Any]]) -> None:
    """Build what some programs of `with_lines` need, two at a time; what does not compile says so when it runs."""

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
    """A task's program, of a package, on a kernel with changes in the text of its part.

    Raises:
        DoesNotApply: some old words do not stand there exactly once.
    """
    try:
        return with_lines(task, changed(parts.solved_part(task.target), edits), package)
    except DoesNotApply as error:
        raise DoesNotApply(f"{error} in {task.target}, not once") from error


def with_lines(task: Task, lines: str, package: str = SOLUTION_NAME) -> Callable[..., Any]:
    """A task's program, of a package, with these lines as its part; `installed` puts them in other packages, too."""
    original = program(task.program, package)

    @wraps(original)
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with parts.exchanged(package, task.target, lines):
            return original(*args, **kwargs)

    kernel.part = task.target, lines  # type: ignore[attr-defined]
    return kernel


Run = Callable[..., list[Any]]
Takes = Callable[[str, Run], Run]  # of a package's name and its function, what takes the function's place


def _calls(package: str, original: Run) -> Run:
    def watched(source: Path, function: str, arguments: Sequence[Any]) -> list[Any]:
        return run(package, source, function, arguments)

    return watched


def _launches(package: str, original: Run) -> Run:
    from . import launches  # and with it MLX, which a command that only builds does without

    return launches.simulated(package, original)


class _Loader(SourceFileLoader):
    """Runs a file through which kernels are called, then takes the call over."""

    def __init__(self, name: str, path: str, function: str, takes: Takes) -> None:
        super().__init__(name, path)
        self._function, self._takes = function, takes

    def exec_module(self, module: ModuleType) -> None:
        """Run the file, and take over."""
        super().exec_module(module)
        package = module.__name__.partition(".")[0]
        setattr(module, self._function, self._takes(package, getattr(module, self._function)))


class _Finder(MetaPathFinder):
    """Finds the files through which kernels are called, of whatever package."""

    def __init__(self) -> None:
        weeks = load_course().weeks
        found: list[tuple[str, Takes]] = [(week.calls, _calls) for week in weeks]
        found += [(week.launches, _launches) for week in weeks]
        calls = [(Target.parse(name), takes) for name, takes in found if name]
        self.names = {call.module: (call.name, takes) for call, takes in calls}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Python's own answer, with a loader that takes over."""
        package, _, module = fullname.partition(".")
        if module not in self.names or not package.startswith("tiny_llm"):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path, *self.names[module])
        return spec
