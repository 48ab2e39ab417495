"""The parameters that a program never uses, although the solution does."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ..source.parsing import parse

UNREADABLE = OSError, TypeError, SyntaxError, ValueError  # no source, or it has changed since it was imported


def unread(mine: Any, ours: Any) -> str:
    """Return what is said of the first function that leaves parameters unread which its namesake in `ours` reads."""
    theirs = dict(_functions(ours))
    for name, function in _functions(mine):
        with suppress(*UNREADABLE):
            names = [f"`{each}`" for each in _unused(function) if name in theirs and each in _named(theirs[name])]
            if names:
                words = ", ".join(names[:-1]) + " and " * (len(names) > 1) + names[-1]
                return f"Your `{function.__name__}` never reads {words}. Our solution does."
    return ""


def _functions(program: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield a function, or a class's own public methods, by name."""
    members = vars(program).items() if isinstance(program, type) else [("", program)]
    yield from ((name, each) for name, each in members if inspect.isfunction(each) and not _is_private(name))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _unused(function: Callable[..., Any]) -> list[str]:
    code, used = function.__code__, _named(function)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [] if used & {"locals", "vars"} else [name for name in names if name not in used | {"self", "cls"}]


def _named(function: Callable[..., Any]) -> set[str]:
    """Return the names in a function's body: what is assigned to is no parameter that was overlooked."""
    return {
        node.id for node in ast.walk(parse(textwrap.dedent(inspect.getsource(function)))) if isinstance(node, ast.Name)
    }
