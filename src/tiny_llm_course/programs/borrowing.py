"""Borrowed tasks: `tiny_llm`'s modules get the solution's targets as soon as they have run; no file is written.

Both packages then share the given modules with classes that need nothing of the learner's: `isinstance` and `except` of
one package must know the objects that the other has made.
"""

import ast
import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from ..course.entities import Target, Task
from ..course.registry import load_course
from ..paths import LEARNER, SOLUTION
from ..source.parsing import parse
from .packages import SOLUTION_NAME, install_patches, load_solution, program


def install(tasks: Iterable[Task]) -> None:
    """Borrow these tasks, and no others, in what this process imports of `tiny_llm` from now on."""
    targets: dict[str, list[Target]] = {}
    for task in tasks:
        targets.setdefault(f"tiny_llm.{task.program.module}", []).append(task.program)
    install_patches("borrowing", {module: partial(_borrow, own) for module, own in targets.items()})
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _SharingFinder)]
    if targets:
        sys.meta_path.insert(0, _SharingFinder())


def _borrow(targets: list[Target], module: ModuleType) -> None:
    for target in targets:
        *path, last = target.name.split(".")
        holder: Any = module
        with suppress(AttributeError):  # a method of a class that is not there any more
            for part in path:
                holder = getattr(holder, part)
            setattr(holder, last, program(target, SOLUTION_NAME))
            if path:  # the solution's method may use private ones that the learner's class has not got
                theirs = program(Target(target.module, ".".join(path)), SOLUTION_NAME)
                for name in vars(theirs).keys() - vars(holder).keys():
                    setattr(holder, name, vars(theirs)[name])


class _SharingFinder(MetaPathFinder, Loader):
    """Finds the solution's module in place of the learner's copy of it."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        package, _, module = fullname.partition(".")
        shared = package == "tiny_llm" and _defines_classes(module) and _is_independent(module)
        return ModuleSpec(fullname, self) if shared else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        load_solution()
        self._own = (module := importlib.import_module(f"{SOLUTION_NAME}.{spec.name.partition('.')[2]}")).__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own  # the lines have run, in the solution


def _defines_classes(module: str) -> bool:
    tree = _given(module)
    return tree is not None and any(isinstance(node, ast.ClassDef) for node in tree.body)


@cache
def _is_independent(module: str) -> bool:
    """Return whether a module is given, and imports of its package only such modules."""
    tree = _given(module)
    return tree is not None and all(map(_is_independent, _imported(module, tree)))


@cache
def _given(module: str) -> ast.Module | None:
    """Return a given module that the learner has not changed; none that looks for files, such as kernels, beside it."""
    file = f"{module.replace('.', '/')}.py"
    with suppress(OSError):  # a folder, or a file of the learner's own
        text = (SOLUTION / file).read_bytes()
        written = any(task.target.file == file for task in load_course().tasks())
        if not written and b"__file__" not in text and (LEARNER / file).read_bytes() == text:
            return parse(text)
    return None


def _imported(module: str, tree: ast.Module) -> Iterator[str]:
    """Yield what a module imports of its own package."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            folder = [*module.split(".")[: -node.level], *(node.module or "").split(".")]
            name = ".".join(filter(None, folder))
            yield from [name] if node.module else (f"{name}.{each.name}".lstrip(".") for each in node.names)
