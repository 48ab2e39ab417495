"""Whether a target is written in the learner's files, and if not, what it is.

A function or class of the learner's counts wherever it is: in a `partial`, a cache, a compiled function, an object with
a method. What has a name in somebody else's module, and nothing of the learner's in it, does not.
"""

import gc
import sys
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from .traps import Traps, spoken

DEPTH = 6  # of what holds what: a partial of a cached function, in a decorator's closure, has 5


def not_written_here(target: Any, traps: Traps) -> str:
    """What a target is, if none of the learner's code is in it: "mx.softmax"; "" if some is, or nobody can tell."""
    return "" if _is_own(target, traps, DEPTH) else spoken(_name(target, traps, DEPTH))


def forbidden_kind(target: Any, traps: Traps) -> str:
    """The forbidden class that a class, or that of an object, is derived from; "" if there is none."""
    bases = (target if isinstance(target, type) else type(target)).__mro__
    return next((spoken(name) for name, kind in traps.classes.items() if name in traps.armed and kind in bases), "")


def _is_own(thing: Any, traps: Traps, depth: int) -> bool:
    """Whether a function or class in something's parts stands in the learner's files."""
    if not depth:
        return False
    match thing:
        case FunctionType():
            code = thing.__code__.co_filename
            if traps.watches(thing.__globals__.get("__file__", "") if code.startswith("<") else code):
                return True
            parts = [getattr(thing, "__wrapped__", None), *_closed_over(thing)]
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
            if _module(thing) != type(thing).__module__ and traps.watches(_file(thing)):
                return True  # in native code of the learner's own
            parts = [type(thing), *gc.get_referents(thing)]
    return any(_is_own(part, traps, depth - 1) for part in parts if callable(part) or _holds(part))


def _holds(part: Any) -> bool:
    return isinstance(part, tuple | list | dict | property | staticmethod | classmethod)


def _closed_over(function: FunctionType) -> list[Any]:
    cells = [cell for cell in function.__closure__ or () if cell != type(cell)()]  # without those that are empty
    return [cell.cell_contents for cell in cells if callable(cell.cell_contents)]


def _file(thing: Any) -> str:
    return getattr(sys.modules.get(_module(thing)), "__file__", None) or ""


def _name(thing: Any, traps: Traps, depth: int) -> str:
    """What something is, by the module that has it; "" for what has no name."""
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
