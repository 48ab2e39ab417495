"""Check that a task's code is the learner's own: where its target is defined, and what its files read and import.

The learner's functions count wherever they are: in a `partial`, a cache, a compiled function, an object with a method.
The learner's files must not read or import our solution, the tests, the harness or libraries that do the work. A Python
audit hook sees this however it is done: a path in bytes, a symbolic link, `runpy`, `importlib`. Native code is not
seen.
"""

import gc
import os
import re
import sys
import traceback
from functools import cache, partial
from pathlib import Path
from types import FrameType, FunctionType, MethodType
from typing import Any

from ..course.entities import Task
from ..paths import LEARNER, SOLUTION, TESTS
from ..programs import borrowing, kernels
from ..source.imports import Imports
from .traps import Traps, spoken

ANSWERS = (".py", ".pyc", ".npz")  # among the tests' files: the learner's code may read a tokenizer's table
STARTS = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen")
MOVES = ("os.link", "os.rename", "os.symlink", "os.chdir")
# The solution's folder in a command line, but not in the path of the checkout.
NAMED = re.compile(rf"(?<![\w./-]){SOLUTION.parent.name}\b|{re.escape(str(SOLUTION.parent))}\b")
STANDARD = os.path.join(os.path.dirname(os.path.realpath(os.__file__)), "")
SHOWS = traceback.extract_stack.__code__.co_filename  # it reads the lines of a stack, including ours
HOLDERS = (tuple, list, dict, property, staticmethod, classmethod)
DEPTH = 6  # of nesting: a partial of a cached function, in a decorator's closure, has 5
PACKAGES = ("site-packages", "dist-packages")  # of others, inside STANDARD


class AnswerGuard:
    """Watch what the learner's files do from now on; `imported` has what they import while they are imported."""

    def __init__(self, traps: Traps, imports: Imports) -> None:
        self.imported: dict[str, list[str]] = {}
        self._traps, self._imports = traps, imports
        self._faults: dict[str, str] = {}
        sys.addaudithook(self._hook)

    def fault(self, task: Task) -> str:
        """Return what a task's files import that they must not, in a line; "" if there is nothing."""
        if task.id not in self._faults:
            self._faults[task.id] = self._imports.fault(task, self.imported)
        return self._faults[task.id]

    def forget(self) -> None:
        """Forget what was imported: the learner's files have changed."""
        self.imported.clear()
        self._faults.clear()

    def _hook(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "import":
            self._sees_import(args[0])
        elif event == "open" or event in MOVES:
            if folder := _answers_in(args[0]):
                self._refuse(folder)
        elif event in STARTS and NAMED.search(repr(args)):
            self._refuse(SOLUTION.parent)

    def _refuse(self, folder: Path) -> None:
        """Raise if a line of the learner's wants what is in a folder."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None:
            file = frame.f_code.co_filename
            if self._traps.watches(file):
                line = f"{Path(file).name}:{frame.f_lineno}"
                raise self._traps.caught(f"{line} uses {folder.name}/, where the answers are: write it yourself")
            if folder == TESTS and file == SHOWS:  # a learner prints a stack, or PyTorch is imported
                return
            # Borrowed tasks, published headers, what the solution itself imports, and our own look-ups are allowed.
            if file in (borrowing.__file__, kernels.__file__, __file__) or file.startswith(f"{SOLUTION}{os.sep}"):
                return
            frame = frame.f_back

    def _sees_import(self, name: str) -> None:
        """Store what a line of the learner's imports, perhaps through the standard library."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and _passes_on(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None or not self._traps.watches(frame.f_code.co_filename):
            return
        file = Path(os.path.relpath(frame.f_code.co_filename, LEARNER)).as_posix()
        if not self._imports.allows(name, file):
            self.imported.setdefault(file, []).append(name)
            self._faults.clear()


def _answers_in(path: Any) -> Path | None:
    if isinstance(path, int) or not path:
        return None
    real = os.path.realpath(os.fsdecode(path))
    if f"{real}{os.sep}".startswith(f"{SOLUTION.parent}{os.sep}"):
        return SOLUTION.parent
    return TESTS if real.startswith(f"{TESTS}{os.sep}") and real.endswith(ANSWERS) else None


@cache
def _passes_on(file: str) -> bool:
    """Return whether a file belongs to Python's library, or is none: its imports are made for its caller."""
    standard = os.path.realpath(file).startswith(STANDARD) and not set(PACKAGES) & set(Path(file).parts)
    return file.startswith("<") or standard


def foreign_target(target: Any, traps: Traps) -> str:
    """Return what a target is, "mx.softmax", if it has none of the learner's code; "" if it has some, or if unknown."""
    return "" if _is_own(target, traps, DEPTH) else spoken(_name(target, traps, DEPTH))


def forbidden_kind(target: Any, traps: Traps) -> str:
    """Return the forbidden class that a class, or an object's class, derives from; "" if there is none."""
    bases = (target if isinstance(target, type) else type(target)).__mro__
    return next((spoken(name) for name, kind in traps.classes.items() if name in traps.armed and kind in bases), "")


def _is_own(thing: Any, traps: Traps, depth: int) -> bool:
    """Return whether a function or class among something's parts is defined in the learner's files."""
    if not depth:
        return False
    match thing:
        case FunctionType():
            code = thing.__code__.co_filename
            if traps.watches(thing.__globals__.get("__file__", "") if code.startswith("<") else code):
                return True
            cells = [cell for cell in thing.__closure__ or () if cell != type(cell)()]  # not the empty ones
            parts = [getattr(thing, "__wrapped__", None), *filter(callable, (cell.cell_contents for cell in cells))]
        case MethodType():
            parts = [thing.__func__, thing.__self__]
        case type():
            own = [base for base in thing.__mro__ if traps.made(base)]
            parts = [part for base in own for part in vars(base).values() if not isinstance(part, type)]
        case tuple() | list():
            parts = list(thing[:DEPTH])
        case dict():
            parts = list(thing.values())
        case _:
            file = getattr(sys.modules.get(_module(thing)), "__file__", None) or ""
            if _module(thing) != type(thing).__module__ and traps.watches(file):
                return True  # the learner's native code
            parts = [type(thing), *gc.get_referents(thing)]
    return any(_is_own(part, traps, depth - 1) for part in parts if callable(part) or isinstance(part, HOLDERS))


def _name(thing: Any, traps: Traps, depth: int) -> str:
    """Return what something is, by the module that has it; "" for what has no name."""
    kind = type(thing)
    match thing:
        case type():
            base = next(base for base in thing.__mro__ if not traps.made(base))
            known = (name for name, forbidden in traps.classes.items() if forbidden is base)
            return next(known, f"{base.__module__}.{base.__qualname__}")
        case partial():
            return _name(thing.func, traps, depth)
        case MethodType():
            return _name(thing.__func__, traps, depth)
    inside = getattr(thing, "__wrapped__", None)
    if kind.__module__ == "mlx.core":  # what mx.compile and its like make of a function
        inside = next((part for part in gc.get_referents(thing) if callable(part) and part is not kind), None)
    if inside is not None and depth:
        return _name(inside, traps, depth - 1)
    name, module = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None), _module(thing)
    if module and name:
        return f"{module}.{name}"
    if kind.__module__.startswith(("mlx.core", "nanobind")):
        return ""
    return f"an object of {kind.__module__}.{kind.__qualname__}".replace("builtins.", "")


def _module(thing: Any) -> str:
    module = getattr(thing, "__module__", None)
    return module if isinstance(module, str) else ""
