"""What a repair may use in a definition of a learner's program: its names and constants, and small parts of ours."""

import ast
import builtins
from collections.abc import Iterator, Set
from typing import Any, NamedTuple, TypeVar

from .text import names

Node = TypeVar("Node", bound=ast.AST)
# The longest parts of ours, in characters: more would replace what the learner has written, and say nothing of it.
EXPRESSION, STATEMENT = 40, 80


class Scope(NamedTuple):
    """What a repair may use in a definition: names of its variables and their attributes, constants, and parts of ours.

    Those are the solution's functions of one argument, calls of methods, expressions and statements, if the
    definition's module knows all names in them.
    """

    names: list[str]
    constants: list[Any]
    functions: list[ast.expr]
    methods: list[ast.Call]
    expressions: list[ast.expr]
    statements: list[ast.stmt]

    @classmethod
    def of(cls, function: ast.FunctionDef, module: Set[str], ours: ast.AST) -> "Scope":
        """Return the scope of a definition in a module that knows some names; `ours` is the solution's program."""
        nodes = [*ast.walk(function)]
        found = [n.arg for n in nodes if isinstance(n, ast.arg)]
        found += [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        called, known = {n.func for n in nodes if isinstance(n, ast.Call)}, {*found}
        for node in nodes:
            match node:
                case ast.Attribute(value=ast.Name(id=name)) if name in known and node not in called:
                    found.append(f"{name}.{node.attr}")
        constants = [n.value for n in [*nodes, *ast.walk(ours)] if isinstance(n, ast.Constant)]
        parts = [n for n in ast.walk(ours) if names(n) <= known | module | {*dir(builtins)} and not _is_definition(n)]
        atoms, no_steps = (ast.Constant, ast.Name, ast.Starred, ast.Slice), (ast.Return, ast.Pass, ast.Raise)
        return cls(
            [name for name in dict.fromkeys(found) if name != "self"],
            [*dict.fromkeys(each for each in constants if not isinstance(each, str) or each.isidentifier())],
            _new((n.func for n in parts if isinstance(n, ast.Call) and len(n.args) == 1), ast.Pass()),
            _methods(ours, known | module),
            _new((n for n in parts if isinstance(n, ast.expr) and names(n) and not isinstance(n, atoms)), function),
            _new((n for n in parts if isinstance(n, ast.stmt) and not isinstance(n, no_steps)), function),
        )


def _is_definition(node: ast.AST) -> bool:
    stored = isinstance(getattr(node, "ctx", None), ast.Store)
    return stored or isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda))


def _methods(ours: ast.AST, known: Set[str]) -> list[ast.Call]:
    """Return distinct calls of methods, whatever the objects are."""
    found = {}
    for node in ast.walk(ours):
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=args, keywords=keywords):
                if all(names(each) <= known for each in [*args, *keywords]):
                    found[name + ast.unparse(node).removeprefix(ast.unparse(node.func))] = node
    return [*found.values()]


def _new(nodes: Iterator[Node], function: ast.AST) -> list[Node]:
    """Return distinct nodes that do not occur in a function."""
    own = {ast.unparse(node) for node in ast.walk(function) if isinstance(node, (ast.expr, ast.stmt))}
    distinct = {ast.unparse(node): node for node in nodes}
    longest = {text: STATEMENT if isinstance(node, ast.stmt) else EXPRESSION for text, node in distinct.items()}
    return [node for text, node in distinct.items() if text not in own and len(text) <= longest[text]]
