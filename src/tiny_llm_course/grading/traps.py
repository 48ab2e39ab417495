"""Forbidden calls: a task must not be solved by calling the operator that it is compared with.

Reading a forbidden function from a module yields one of three objects: for the tests the function itself, for its own
library one that checks its caller, for other files one that reports every call, be it through `mx.compile`, a `partial`
or another thread. A forbidden class stays a class; its methods check their caller and object. Functions are found by
identity. A name like `mlx.nn.losses.*` stands for all that the module defines.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from ..course.entities import Task
from ..course.findings import CheckFailed, Finding, Kind
from ..paths import COURSE, TESTS

# The folders of the tests and the harness, which may call anything.
OWN = (f"{TESTS}{os.sep}", f"{COURSE}{os.sep}")
ALWAYS = frozenset(["mlx.core.import_function"])  # it runs a recorded function with any operators
MADE = "_made_by_the_learner"  # an attribute of the objects of forbidden classes


class Traps:
    """The traps of one grading process: `armed` names are forbidden now; `hits` keeps what an `except` might hide."""

    def __init__(self, guarded: Iterable[Path]) -> None:
        self._guarded: tuple[str, ...] = ()
        for path in guarded:
            self.guard(path)
        self.armed = ALWAYS
        self.subject = ""  # the target of the task whose traps are armed
        self.hits: list[CheckFailed] = []
        self.classes: dict[str, type] = {}  # the trapped classes, by name
        self._set: set[str] = set()

    def arm(self, task: Task | None) -> None:
        """From now on report what a task forbids, and nothing else."""
        self.armed = ALWAYS.union(each_of(task.forbidden) if task else ())
        self.subject = task.program.name if task else ""
        self.hits = self.hits if task is None else []

    def guard(self, path: Path) -> None:
        """Watch another file or folder."""
        # The separator keeps src/tiny_llm apart from src/tiny_llm_course.
        self._guarded += (str(path) if path.suffix else f"{path}{os.sep}",)

    def watches(self, file: str) -> bool:
        """Return whether a Python file is one of the learner's."""
        return file.startswith(self._guarded) or _real(file).startswith(self._guarded)

    def made(self, kind: type) -> bool:
        """Return whether a class, or a method in it, is defined in one of the learner's files."""
        methods = [part for part in vars(kind).values() if isinstance(part, FunctionType)]
        module = getattr(sys.modules.get(kind.__module__), "__file__", None) or ""
        return self.watches(module) or any(self.watches(method.__code__.co_filename) for method in methods)

    def caught(self, headline: str) -> CheckFailed:
        """Store a forbidden act, and return the exception to raise."""
        self.hits.append(CheckFailed(Finding(Kind.FORBIDDEN, headline)))
        return self.hits[-1]

    def learners_line(self, above: int = 1) -> str:
        """Return the innermost running line of a watched file, as "basics.py:12"; "" if there is none."""
        frame = sys._getframe(above)
        while frame is not None:
            if self.watches(frame.f_code.co_filename):
                return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            frame = frame.f_back  # type: ignore[assignment]
        return ""

    def set(self, names: Iterable[str]) -> None:
        """Set the traps of names like `mlx.core.softmax`, before the learner's files are imported."""
        for name in (*each_of(names), *ALWAYS):
            if name not in self._set:
                self._set.add(name)
                module, _, attribute = name.rpartition(".")
                original = getattr(import_module(module), attribute)
                if isinstance(original, type):
                    self.classes[name] = original
                    for key, method in list(vars(original).items()):
                        if isinstance(method, FunctionType):
                            setattr(original, key, self._method(name, key, method))
                else:
                    self._everywhere(name, original)

    def _everywhere(self, name: str, original: Callable[..., Any]) -> None:
        """Trap a function in every module that has it."""
        counted, looking = self._function(name, original, True), self._function(name, original, False)
        tops = ("mlx", name.partition(".")[0])
        loaded = [module for key, module in list(sys.modules.items()) if key.partition(".")[0] in tops]
        for module in (module for module in loaded if isinstance(module, ModuleType)):
            places = {key: place for key, place in vars(type(module)).items() if isinstance(place, _Place)}
            for key, value in vars(module).items():
                if value is original or (key in places and places[key].original is original):
                    places[key] = _Place(self, key, original, looking, counted)
                    vars(module)[key] = looking
            if places:
                module.__class__ = type("module", (ModuleType,), places)

    def _function(self, name: str, original: Callable[..., Any], always: bool) -> Callable[..., Any]:
        def trapped(*args: Any, **kwargs: Any) -> Any:
            if name in self.armed and ((line := self.learners_line(2)) or always):
                raise self._call_of(name, line)
            return original(*args, **kwargs)

        return _named(trapped, name, original)

    def _method(self, name: str, key: str, original: Callable[..., Any]) -> Callable[..., Any]:
        makes = key == "__init__"

        def trapped(this: Any, *args: Any, **kwargs: Any) -> Any:
            if name in self.armed or makes:
                line = self.learners_line(2)
                # A call on an object that the learner has made, or of a class of theirs, counts, whatever calls it.
                if name in self.armed and (line or getattr(this, MADE, False) or self.made(type(this))):
                    raise self._call_of(name, line)
                if makes and line:
                    object.__setattr__(this, MADE, True)
            return original(this, *args, **kwargs)

        return _named(trapped, name, original, f".{key}")

    def _call_of(self, name: str, line: str) -> CheckFailed:
        return self.caught(f"{line or self.subject} calls {spoken(name)}, which this task must do without")


class _Place:
    """A trapped name of a module: its value depends on the reader; a value assigned to it is for all."""

    def __init__(self, traps: Traps, key: str, original: Any, looking: Any, counted: Any) -> None:
        self.traps, self.key, self.original, self.looking, self.counted = traps, key, original, looking, counted

    def __get__(self, module: ModuleType | None, owner: type) -> Any:
        if module is None:
            return self
        if self.key not in vars(module):
            raise AttributeError(f"module {module.__name__!r} has no attribute {self.key!r}")
        held = vars(module)[self.key]
        if held is not self.looking:
            return held
        file = sys._getframe(1).f_code.co_filename
        if _real(file).startswith(OWN) and not self.traps.watches(file):  # the tests and the harness
            return self.original
        return held if _real(file).startswith(_library(self.counted.__module__)) else self.counted

    def __set__(self, module: ModuleType, value: Any) -> None:
        vars(module)[self.key] = value

    def __delete__(self, module: ModuleType) -> None:
        del vars(module)[self.key]


@contextmanager
def nothing_compiled() -> Iterator[None]:
    """Disable `mx.compile` in the block: a trap would not see calls that it has recorded."""
    import mlx.core as mx

    compiles = _compiles()
    mx.disable_compile()
    try:
        yield
    finally:
        if compiles:
            mx.enable_compile()


def _compiles() -> bool:
    """Return whether MLX compiles now, which it does not expose: a compiled function runs in Python only once."""
    import mlx.core as mx

    calls = 0

    @mx.compile
    def counted(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x

    counted(mx.array(0.0))
    counted(mx.array(0.0))
    return calls == 1


def each_of(names: Iterable[str]) -> Iterator[str]:
    """Yield the names, and for `module.*` those of the public functions and classes that the module defines."""
    for name in names:
        module, _, last = name.rpartition(".")
        found = vars(import_module(module)).items() if last == "*" else ()
        yield from (f"{module}.{key}" for key, value in found if getattr(value, "__module__", "") == module)
        yield from () if found else (name,)


def spoken(name: str) -> str:
    """Return a name of MLX's as people write it."""
    return name.replace("mlx.core.", "mx.")


def _named(trapped: Any, name: str, original: Any, method: str = "") -> Callable[..., Any]:
    trapped.__module__, _, short = name.rpartition(".")
    trapped.__qualname__, trapped.__doc__ = short + method, original.__doc__
    trapped.__name__ = trapped.__qualname__.rpartition(".")[2]
    named: Callable[..., Any] = trapped
    return named


@cache
def _real(file: str) -> str:
    """Return a file's path without symbolic links; what is no file, "<string>", stays as it is."""
    return file if file.startswith("<") else os.path.realpath(file)


@cache
def _library(module: str) -> str:
    """Return the folder of the library to which a module belongs."""
    spec = find_spec(module.partition(".")[0])
    assert spec
    folder, *_ = spec.submodule_search_locations or [os.path.dirname(spec.origin or "")]
    return os.path.join(os.path.realpath(folder), "")
