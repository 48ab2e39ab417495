"""Which names a piece of code mentions."""

import ast
from collections.abc import Mapping

from .parsing import parse_expression
from .text import Definition, is_private


def names(node: ast.AST) -> set[str]:
    """Return the variables that code reads or sets, names in quoted annotations, and those in `__all__`."""
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
    """Return every `x` of an `object.x`."""
    return {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def with_helpers(known: Mapping[str, Definition], name: str) -> list[Definition]:
    """Return a definition of those `known` and the private ones that it uses, directly or not, in text order."""
    chosen, more = set[str](), {name}
    while more:
        chosen |= more
        mentioned = set().union(*(names(known[one]) | attributes(known[one]) for one in chosen))
        outside = [one for one in known if not any(f"{one}.".startswith(f"{each}.") for each in chosen)]
        more = {one for one in outside if is_private(last := one.split(".")[-1]) and last in mentioned}
    return [node for one, node in known.items() if one in chosen]


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
