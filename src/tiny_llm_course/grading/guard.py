"""Protect the grading process from the learner's code, which runs in it beside the tests.

A learner's file could replace `mx.allclose`, `isinstance` or a check of the test kit. `Guard` stores all that grading
uses before the first of them is imported; what is another object later is restored, and named.
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

from ..course.file_paths import module_path, name_of
from ..source.parsing import parse

# These packages and the graded tests with all their modules, and these single modules: others change their own globals.
PACKAGES = ("mlx", "numpy", "tiny_llm_course")
TESTS = "tests.week"
MODULES = (
    "builtins", "hypothesis", "hypothesis.strategies", "inspect", "json", "math", "os", "pytest",
    "_pytest.outcomes", "_pytest.reports", "_pytest.runner",
)  # fmt: skip
LEARNER = "tiny_llm"
REPLACED_BY_OTHERS = {("inspect", "getfile")}  # by PyTorch while it is imported


class Guard:
    """Store the contents of the modules that grading uses, and restore them."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}
        self._others: dict[str, ModuleType] = {}  # which must not be removed
        self._held: list[tuple[str, Any, dict[str, Any]]] = []  # a name, the module or class, its contents

    def note(self) -> None:
        """Store everything as it is now, in place of what was stored before."""
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
        """Restore what has been replaced, and return the name of the first such thing; "" if there is none."""
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
                # A class written in C may refuse, and has not changed.
                with contextlib.suppress(AttributeError, TypeError):
                    setattr(holder, key, held[key])
                    found = found or f"{name}.{key}"
            if len(now) != len(held):
                found = self._remove_shadows(name, holder, held) or found
        return found

    def _remove_shadows(self, name: str, holder: Any, held: dict[str, Any]) -> str:
        """Delete new names that hide a built-in one, or an operator of a class."""
        operators = (*dir(object), *dir(type), "__bool__", "__array__", "__getattr__")
        hidden = vars(builtins) if isinstance(holder, ModuleType) else operators
        added = [key for key in vars(holder) if key not in held and key in hidden]
        for key in added:
            delattr(holder, key)
        return f"{name}.{added[0]}" if added else ""


def _same_objects(now: Mapping[str, Any], held: dict[str, Any]) -> bool:
    """Return whether the same names, in the same order, refer to the same objects. Fast: it runs after every check."""
    return len(now) == len(held) and all(map(is_, now, held)) and all(map(is_, now.values(), held.values()))


def _is_guarded(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES or name in MODULES or name.startswith(TESTS)


def import_oracles(test_file: Path, package: Path) -> list[str]:
    """Import what a test file imports, for the guard; return its modules of the learner's package: "kernels.axpy"."""
    try:
        body = parse(test_file.read_bytes()).body
    except (SyntaxError, ValueError):  # pytest will report it
        return []
    found, own = list[str](), f"{LEARNER}."
    for node in body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            # Modules of a folder, "kernels"; others define names.
            files = [p for p in parts if p.startswith(own) and module_path(package, p.removeprefix(own)).is_file()]
            names = parts if node.module == LEARNER else files or [node.module]
        for name in names:
            if name.partition(".")[0] == LEARNER:
                found.append(name.removeprefix(own))
            else:
                with contextlib.suppress(ImportError):  # pytest will report it
                    importlib.import_module(name)
    return found


def signal_no_others() -> None:
    """Let `os.kill` refuse processes that this one has not started, with a PermissionError. Native code is not seen."""
    own = os.getpid()

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event not in ("os.kill", "os.killpg"):
            return
        target, number = args
        if number and not _is_of(own, abs(target) if target != -1 else 1):  # -1 is every process
            name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
            raise PermissionError(f"{name} to a process that your code has not started")

    sys.addaudithook(hook)


def _is_of(own: int, target: int) -> bool:
    """Return whether a process, or the first one of a group, is our own or descends from it; 0 is our own group."""
    import psutil  # rarely needed, and slow to import

    if target in (0, own):
        return True
    try:
        return own in (process.pid for process in psutil.Process(target).parents())
    except psutil.Error:
        return True  # it has ended, as the system will report


class Breakpoints:
    """Replace Python's debugger; `place` is the last line of the package that has called it."""

    def __init__(self, package: Path) -> None:
        self.place = ""
        self._package = package

    def install(self) -> None:
        """Let breakpoint() and pdb.set_trace() only store their place from now on."""
        sys.breakpointhook = pdb.set_trace = self._stop

    def _stop(self, *args: Any, **kwargs: Any) -> None:
        caller = sys._getframe(1)
        file = Path(caller.f_code.co_filename)
        if file.is_relative_to(self._package):
            self.place = f"{name_of(file)}:{caller.f_lineno}"
