"""The code of one task for reading: the definition and its private helpers, without docstrings."""

import ast
import textwrap
from collections.abc import Iterable
from pathlib import Path

from ..course.entities import Target
from .code import region
from .text import Definition, Edit, Text, decorated_line, definitions, docstring, end_line, with_helpers


class NoSuchCode(Exception):
    """There is no code to show; the message, part of a sentence, says why."""


def code_of(package: Path, target: Target) -> str:
    """Return the source of a target with the private helpers that it uses. Raise NoSuchCode if there is none."""
    file = package / target.file
    if not target.is_python:
        if (marked := region(target, package)) is None:
            raise NoSuchCode(f"{file.name} has no part that is marked {target.name}")
        return f"{textwrap.dedent(marked)}\n"
    text = _read(file)
    known = dict(definitions(text.tree.body))  # of two with one name the last, as in Python
    if target.name not in known:
        raise NoSuchCode(f"{file.name} defines no {target.name}")
    return _excerpt(text, with_helpers(known, target.name))


def code_of_variant(file: Path, name: str) -> tuple[int, str]:
    """Return a known program's first line and source, by the name in its decorator."""
    text = _read(file)
    for node in text.tree.body:
        for decorator in node.decorator_list if isinstance(node, Definition) else ():
            arguments = [a.value for a in getattr(decorator, "args", ()) if isinstance(a, ast.Constant)]
            if arguments == [name]:
                assert isinstance(node, Definition)
                return node.lineno, _excerpt(text, [node], decorators=False)
    raise NoSuchCode(f"{file.name} defines no {name}")


def _read(file: Path) -> Text:
    try:
        return Text(file.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise NoSuchCode(f"{file.name} cannot be read: {error.strerror}") from error
    except (SyntaxError, ValueError, RecursionError) as error:
        raise NoSuchCode(f"{file.name} is not Python: {error}") from error


def _excerpt(text: Text, nodes: Iterable[Definition], decorators: bool = True) -> str:
    """Join definitions, dedented, with blank lines between them."""
    parts = []
    for node in nodes:
        first = decorated_line(node) if decorators else node.lineno
        lines = text.lines[first - 1 : text.last_line(node)]
        inner = [each for each in ast.walk(node) if isinstance(each, Definition)]
        dropped = [edit for each in inner for edit in _docstring(text, each)]
        parts.append("\n".join(_without(lines, first, dropped, node.col_offset)).strip("\n"))
    return "\n\n".join(parts) + "\n"


def _docstring(text: Text, node: Definition) -> list[Edit]:
    """Return an edit that drops a docstring, unless it shares a line or is the whole body."""
    constant = docstring(node)
    if constant is None or len(node.body) == 1:
        return []
    first, last = constant.lineno, end_line(constant)
    alone = text.is_blank(first) or text.line(first).strip()[:1] in "\"'rRuU"
    return [Edit(first, last)] if alone and node.body[1].lineno > last else []


def _without(lines: list[str], first: int, dropped: list[Edit], margin: int) -> list[str]:
    """Return lines, starting at number `first`, dedented and without dropped ones and the blank line after each."""
    kept: list[str] = []
    after_dropped = False
    for number, line in enumerate(lines, first):
        if any(edit.first <= number <= edit.last for edit in dropped):
            after_dropped = True
        elif line.strip() or not after_dropped:
            kept.append(line.rstrip("\r").removeprefix(" " * margin))
            after_dropped = False
    return kept
