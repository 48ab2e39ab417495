"""Which names a piece of code mentions."""

import ast
from collections.abc import Collection, Mapping

from .parsing import parse_expression
from .text import Definition, is_private


def names(node: ast.AST) -> set[str]:
    """The variables it reads or sets, the names in quoted annotations, and those that `__all__` lists."""
    found = set()
    for inner in ast.walk(node):
        match inner:
            case ast.Name(id=name):
                found.add(name)
            case ast.arg(annotation=annotation) if annotation is not None:
                found |= _quoted(annotation)
            case ast.FunctionDef(returns=annotation) | ast.AsyncFunctionDef(returns=annotation) if annotation:
                found |= _quoted(annotation)
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                found |= _quoted(annotation) | _exported([target], value)
            case ast.Assign(targets=targets, value=value):
                found |= _exported(targets, value)
            case ast.AugAssign(target=target, value=value):
                found |= _exported([target], value)
    return found


def attributes(node: ast.AST) -> set[str]:
    """Every `x` of an `object.x`."""
    return {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def with_helpers(known: Mapping[str, Definition], name: str) -> list[Definition]:
    """A definition of a file and the private ones that it uses, also by way of others, in the order of the text.

    Args:
        known: the definitions of the file by their dotted names, as `definitions` gives them.
        name: whose code it is.
    """
    chosen = {name}
    while more := {one for one in known if _helps(one, chosen) and one.split(".")[-1] in _mentions(known, chosen)}:
        chosen |= more
    return [node for one, node in known.items() if one in chosen]


def _helps(name: str, chosen: Collection[str]) -> bool:
    """Whether it is private, and not in what is chosen already."""
    inside = any(name == one or name.startswith(f"{one}.") for one in chosen)
    return is_private(name.split(".")[-1]) and not inside


def _mentions(known: Mapping[str, Definition], chosen: Collection[str]) -> set[str]:
    return set().union(*(names(known[name]) | attributes(known[name]) for name in chosen))


def _quoted(annotation: ast.expr) -> set[str]:
    found = set()
    for text in _strings(annotation):
        try:
            found |= names(parse_expression(text))
        except SyntaxError:
            continue  # Literal["not code"]
    return found


def _exported(targets: list[ast.expr], value: ast.expr | None) -> set[str]:
    is_export = any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)
    return _strings(value) if is_export and value is not None else set()


def _strings(node: ast.AST) -> set[str]:
    return {i.value for i in ast.walk(node) if isinstance(i, ast.Constant) and isinstance(i.value, str)}
