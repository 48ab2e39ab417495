"""Borrowed tasks: `tiny_llm`'s modules get the solution's targets as soon as they have run; no file is written."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

from ..course.entities import Target, Task
from .packages import SOLUTION_NAME, install_patches, program


def install(tasks: Iterable[Task]) -> None:
    """Borrow these tasks, and no others, in what this process imports of `tiny_llm` from now on."""
    targets: dict[str, list[Target]] = {}
    for task in tasks:
        targets.setdefault(f"tiny_llm.{task.program.module}", []).append(task.program)
    install_patches("borrowing", {module: partial(_borrow, own) for module, own in targets.items()})


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
