"""What a stub and its solution must share, and what the book prints: signatures and docstrings."""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from ..parsing import parse
from ..text import Definition, Text, decorated_line, definitions, docstring, end_line, is_private, text_before


class Signature(NamedTuple):
    """What a caller sees of a function, method or class, each part as Python source."""

    args: str  # a class's bases
    returns: str | None
    decorators: tuple[str, ...]
    docstring: str | None


def signatures(source: str) -> dict[str, Signature]:
    """Return every definition's signature by dotted name; a repeated one, such as an overload, has "#2" after it."""
    found: dict[str, Signature] = {}
    for name, node in definitions(parse(source).body):
        if isinstance(node, ast.ClassDef):
            args, returns = ", ".join(map(ast.unparse, [*node.bases, *node.keywords])), None
        else:
            args, returns = ast.unparse(node.args), ast.unparse(node.returns) if node.returns else None
        number = 1 + sum(known.split("#")[0] == name for known in found)
        key, decorators = name if number == 1 else f"{name}#{number}", tuple(map(ast.unparse, node.decorator_list))
        found[key] = Signature(args, returns, decorators, ast.get_docstring(node))
    return found


def listing(source: str, name: str) -> str:
    """Return a target's decorators, head and docstring, and its public methods'; ValueError if not defined."""
    text = Text(source)
    nodes = [node for known, node in definitions(text.tree.body) if known == name]
    if not nodes:
        raise ValueError(f"there is no {name}")
    margin = " " * nodes[0].col_offset
    return "".join(f"{line.removeprefix(margin)}\n" for node in nodes for line in _listed(text, node))


def _listed(text: Text, node: Definition) -> Iterator[str]:
    head, doc = text.head_line(node), docstring(node)
    yield from text.lines[decorated_line(node) - 1 : head - 1]
    on_head_line = node.body[0].lineno == head
    yield text_before(text.line(head), node.body[0].col_offset).rstrip() if on_head_line else text.line(head)
    if doc is not None and not on_head_line:
        yield from text.lines[doc.lineno - 1 : end_line(doc)]
    if isinstance(node, ast.ClassDef):
        for member in node.body:
            if isinstance(member, Definition) and not is_private(member.name):
                yield ""
                yield from _listed(text, member)
