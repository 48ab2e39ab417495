"""Protects the process that grades from the learner's code, which runs in it beside the tests.

A learner's file could replace `mx.allclose`, `isinstance` or a check of the test kit, by accident (a name that was
meant to be its own) or to see what happens. Before the first of the learner's files is imported, `Guard` notes
everything in the modules that grading uses; whatever is another object later is put back, and named. Signals to other
processes are refused, and breakpoint() does not stop.
"""

import ast
import builtins
import contextlib
import importlib
import os
import pdb
import signal
import sys
from collections.abc import Mapping
from operator import is_
from pathlib import Path
from types import ModuleType
from typing import Any

from ..course.places import module_path, name_of
from ..source.parsing import parse

# These packages and the graded tests with all their modules, and these modules by themselves: others keep notes of
# their own in their names.
PACKAGES = ("mlx", "numpy", "tiny_llm_course")
TESTS = "tests.week"
MODULES = (
    "builtins", "hypothesis", "hypothesis.strategies", "inspect", "json", "math", "os", "pytest",
    "_pytest.outcomes", "_pytest.reports", "_pytest.runner",
)  # fmt: skip
LEARNER = "tiny_llm"
# PyTorch puts one of its own there while it is imported.
REPLACED_BY_OTHERS = {("inspect", "getfile")}


class Guard:
    """Notes what the modules of grading hold, and puts it back."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}
        self._others: dict[str, ModuleType] = {}  # which only have to be there
        self._held: list[tuple[str, Any, dict[str, Any]]] = []  # a name, the module or class, what it held

    def note(self) -> None:
        """Note everything as it is now; what was noted before is forgotten."""
        self._modules = {name: module for name, module in sys.modules.items() if _is_guarded(name)}
        self._others = {name: module for name, module in sys.modules.items() if not _is_guarded(name)}
        self._held = [(name, module, dict(vars(module))) for name, module in self._modules.items()]
        classes = {
            id(value): (f"{name}.{key}", value, dict(vars(value)))
            for name, _, held in self._held
            for key, value in held.items()
            if isinstance(value, type) and value.__module__.partition(".")[0] in PACKAGES
        }
        self._held += classes.values()

    def restore(self) -> str:
        """Put back what has been replaced, and give the name of the first such thing; "" if nothing has been."""
        found = ""
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                found = found or name
                sys.modules[name] = module
        for name in [name for name in self._others if name not in sys.modules]:
            found = found or f"sys.modules[{name!r}]"
            sys.modules[name] = self._others[name]
        for name, holder, held in self._held:
            now = vars(holder)
            if _same_objects(now, held):
                continue
            changed = [key for key, value in held.items() if now.get(key, self) is not value]
            for key in (key for key in changed if (name, key) not in REPLACED_BY_OTHERS):
                with contextlib.suppress(AttributeError, TypeError):  # a class of C's may refuse, and has not changed
                    setattr(holder, key, held[key])
                    found = found or f"{name}.{key}"
            if len(now) != len(held):
                found = self._remove_shadows(name, holder, held) or found
        return found

    def _remove_shadows(self, name: str, holder: Any, held: dict[str, Any]) -> str:
        """Take away names that were not there and that hide a built-in one, or an operator of a class."""
        hides = (lambda key: key in vars(builtins)) if isinstance(holder, ModuleType) else _is_operator
        added = [key for key in vars(holder) if key not in held and hides(key)]
        for key in added:
            delattr(holder, key)
        return f"{name}.{added[0]}" if added else ""


def _same_objects(now: Mapping[str, Any], held: dict[str, Any]) -> bool:
    """Whether the same names, in the same order, stand for the same objects: tens of thousands after every check."""
    same_names = len(now) == len(held) and all(map(is_, now, held))
    return same_names and all(map(is_, now.values(), held.values()))


def _is_guarded(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES or name in MODULES or name.startswith(TESTS)


def _is_operator(key: str) -> bool:
    return hasattr(object, key) or key in ("__bool__", "__array__", "__getattr__")


def import_oracles(test_file: Path, package: Path) -> list[str]:
    """Import what a test file imports, but for the learner's package: what is noted must be there first.

    Returns:
        The modules of the learner's package that it imports, as "basics" or "kernels.axpy".
    """
    try:
        body = parse(test_file.read_bytes()).body
    except (SyntaxError, ValueError):  # the tests cannot be imported, which pytest will say
        return []
    found: list[str] = []
    for node in body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            files = [part for part in parts if _is_file(part, package)]  # of a folder, "kernels"; others define names
            names = parts if node.module == LEARNER else files or [node.module]
        for name in names:
            if name.partition(".")[0] == LEARNER:
                found.append(name.removeprefix(f"{LEARNER}."))
            else:
                with contextlib.suppress(ImportError):  # likewise
                    importlib.import_module(name)
    return found


def _is_file(name: str, package: Path) -> bool:
    """Whether a name, "tiny_llm.kernels.axpy", is a module of the learner's package."""
    top, _, module = name.partition(".")
    return top == LEARNER and module_path(package, module).is_file()


def signal_no_others() -> None:
    """From now on `os.kill` refuses the processes that this one has not started, with a PermissionError.

    Native code that asks the system by itself is not seen.
    """
    own = os.getpid()

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event not in ("os.kill", "os.killpg"):
            return
        target, number = args
        if number and not _is_of(own, abs(target) if target != -1 else 1):  # -1 is every process that there is
            name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
            raise PermissionError(f"{name} to a process that your code has not started")

    sys.addaudithook(hook)


def _is_of(own: int, target: int) -> bool:
    """Whether a process, or the first one of a group, is our own or comes from it; 0 is our own group."""
    import psutil  # which is rarely needed, and takes time

    if target in (0, own):
        return True
    try:
        return own in (process.pid for process in psutil.Process(target).parents())
    except psutil.Error:
        return True  # gone, which the system will say


class Breakpoints:
    """Takes the place of Python's debugger; `place` is the last line of the package that has called it."""

    def __init__(self, package: Path) -> None:
        self.place = ""
        self._package = package

    def install(self) -> None:
        """From now on breakpoint() and pdb.set_trace() only leave their place."""
        sys.breakpointhook = pdb.set_trace = self._stop

    def _stop(self, *args: Any, **kwargs: Any) -> None:
        caller = sys._getframe(1)
        file = Path(caller.f_code.co_filename)
        if file.is_relative_to(self._package):
            self.place = f"{name_of(file)}:{caller.f_lineno}"
