"""The code of one task as a reader wants it: the definition and its private helpers, without their docstrings."""

import ast
import textwrap
from collections.abc import Iterable
from pathlib import Path

from ..course.nouns import Target
from .names import with_helpers
from .text import Definition, Edit, Text, decorated_line, definitions, docstring, end_line
from .written import region


class NoSuchCode(Exception):
    """There is no code to show; the message says why, as a part of a sentence."""


def code_of(package: Path, target: Target) -> str:
    """The source of a target in a package, with the private helpers that it uses.

    Raises:
        NoSuchCode: the file cannot be read, cannot be taken apart, or does not define the target.
    """
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
    """The source of a known program, and the line that it begins on, by the name that its decorator gives it."""
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
    """These definitions at no indentation, a blank line between two."""
    parts = []
    for node in nodes:
        first = decorated_line(node) if decorators else node.lineno
        lines = text.lines[first - 1 : text.last_line(node)]
        dropped = [
            edit for inner in ast.walk(node) if isinstance(inner, Definition) for edit in _docstring(text, inner)
        ]
        parts.append("\n".join(_without(lines, first, dropped, node.col_offset)).strip("\n"))
    return "\n\n".join(parts) + "\n"


def _docstring(text: Text, node: Definition) -> list[Edit]:
    """The lines of a docstring that stands alone on them and is not all that there is."""
    constant = docstring(node)
    if constant is None or len(node.body) == 1:
        return []
    first, last = constant.lineno, end_line(constant)
    alone = text.is_blank(first) or text.line(first).strip()[:1] in "\"'rRuU"
    return [Edit(first, last)] if alone and node.body[1].lineno > last else []


def _without(lines: list[str], first: int, dropped: list[Edit], margin: int) -> list[str]:
    """The lines from number `first` without the dropped ones and the blank line behind each, and without the margin."""
    kept: list[str] = []
    after_dropped = False
    for number, line in enumerate(lines, first):
        if any(edit.first <= number <= edit.last for edit in dropped):
            after_dropped = True
        elif line.strip() or not after_dropped:
            kept.append(line.rstrip("\r").removeprefix(" " * margin))
            after_dropped = False
    return kept
