"""Borrowed tasks: while `tiny_llm` is imported, their targets become the solution's.

This happens file by file, as soon as a file's own lines have run. So whoever imports a borrowed function from it, by
whatever name, has the reference from the start. The learner's files are not written to.
"""

import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from ..course.nouns import Target, Task
from .packages import SOLUTION_NAME, program

PREFIX = "tiny_llm."


class _Loader(SourceFileLoader):
    """Runs a file of the learner's, then puts the references in their places."""

    def __init__(self, name: str, path: str, targets: Sequence[Target]) -> None:
        super().__init__(name, path)
        self.targets = targets

    def exec_module(self, module: ModuleType) -> None:
        """Run the file, then borrow."""
        super().exec_module(module)
        for target in self.targets:
            _put(module, target)


class _Finder(MetaPathFinder):
    """Finds those files of `tiny_llm` in which something is borrowed."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.targets: dict[str, list[Target]] = {}
        for task in tasks:
            self.targets.setdefault(PREFIX + task.program.module, []).append(task.program)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Python's own answer, with a loader that borrows."""
        targets = self.targets.get(fullname)
        spec = PathFinder.find_spec(fullname, path, target) if targets else None
        if targets and spec and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(fullname, spec.loader.path, targets)
        return spec


def install(tasks: Iterable[Task]) -> None:
    """Borrow these tasks, and no others, in what this process imports of `tiny_llm` from now on."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    if (finder := _Finder(tasks)).targets:
        sys.meta_path.insert(0, finder)


def _put(module: ModuleType, target: Target) -> None:
    *path, last = target.name.split(".")
    holder: Any = module
    with suppress(AttributeError):  # a method of a class that is not there any more
        for part in path:
            holder = getattr(holder, part)
        setattr(holder, last, program(target, SOLUTION_NAME))
        if path:  # the solution's method may use private ones that the learner's class has not got
            theirs = program(Target(target.module, ".".join(path)), SOLUTION_NAME)
            for name, member in vars(theirs).items():
                if name not in vars(holder):
                    setattr(holder, name, member)
