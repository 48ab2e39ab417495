"""The parameters that a program never reads, although the solution does."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ..source.parsing import parse


def unread(mine: Any, ours: Any) -> str:
    """Return what is said of the first function that leaves parameters unread which its namesake in `ours` reads."""
    theirs = dict(_functions(ours))
    for name, function in _functions(mine):
        with suppress(
            OSError, TypeError, SyntaxError, ValueError
        ):  # no source, or it has changed since it was imported
            names = [each for each in _never_read(function) if name in theirs and each in _read(theirs[name])]
            if names:
                words = " and ".join(f"`{each}`" for each in names)
                return f"Your `{function.__name__}` never reads {words}. Our solution does."
    return ""


def _functions(program: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield a function, or a class's own public methods, by name."""
    members = vars(program).items() if isinstance(program, type) else [("", program)]
    yield from ((name, each) for name, each in members if inspect.isfunction(each) and not _is_private(name))


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _never_read(function: Callable[..., Any]) -> list[str]:
    names = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    read = _read(function)
    return [] if read & {"locals", "vars"} else [name for name in names if name not in read | {"self", "cls"}]


def _read(function: Callable[..., Any]) -> set[str]:
    tree = parse(textwrap.dedent(inspect.getsource(function)))
    loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    changed = {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    return loaded | changed
