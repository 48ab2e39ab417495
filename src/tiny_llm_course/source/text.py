"""A module's text beside its syntax tree: whole lines are cut and replaced; and the names that code mentions."""

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from .parsing import parse, parse_expression

Function = ast.FunctionDef | ast.AsyncFunctionDef
Definition = Function | ast.ClassDef
WIDTH = 120  # of the course's lines


class Edit(NamedTuple):
    """Replaces the lines from `first` to `last` (from 1, inclusive) by `lines`; drops them if there are none."""

    first: int
    last: int
    lines: tuple[str, ...] = ()


class Text:
    """The text of a module by line number, counted from 1 as in the syntax tree. SyntaxError if it is not Python."""

    def __init__(self, text: str) -> None:
        self.tree = parse(text)
        self.lines = text.split("\n")  # splitlines() would also split at form feeds, where Python does not
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        self.comments = {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}

    def line(self, number: int) -> str:
        """Return one line without its end."""
        return self.lines[number - 1]

    def is_blank(self, number: int) -> bool:
        """Return whether the line is blank."""
        return not self.line(number).strip()

    def is_comment(self, number: int) -> bool:
        """Return whether the line holds a comment and nothing else."""
        return self.line(number).strip() == self.comments.get(number)

    def first_line(self, node: ast.stmt) -> int:
        """Return where a statement begins, with its decorators and the comments directly above."""
        first = decorated_line(node)
        while first > 1 and self.is_comment(first - 1) and indent(self.line(first - 1)) == node.col_offset:
            first -= 1
        return first

    def head_line(self, node: Definition) -> int:
        """Return the last line of a definition's head, the one with the colon."""
        body = decorated_line(node.body[0])
        if text_before(self.line(body), node.body[0].col_offset).strip():  # def f(): return 1
            return body
        head = body - 1
        while self.is_blank(head) or self.is_comment(head):
            head -= 1
        return head

    def last_line(self, node: ast.stmt) -> int:
        """Return where a statement ends, with following comments that are indented like its body."""
        last = end_line(node)
        for number in range(last + 1, len(self.lines) + 1):
            if self.is_comment(number) and indent(self.line(number)) > node.col_offset:
                last = number
            elif not self.is_blank(number):
                break
        return last

    def edited(self, edits: Iterable[Edit]) -> str:
        """Apply edits that do not overlap."""
        lines = list(self.lines)
        for edit in sorted(edits, key=lambda edit: edit.first, reverse=True):  # upwards, so that line numbers hold
            depth = indent(lines[edit.first - 1])
            lines[edit.first - 1 : edit.last] = edit.lines
            if not edit.lines:
                _close_gap(lines, edit.first - 1, depth)
        return "\n".join(lines)


def _close_gap(lines: list[str], gap: int, depth: int) -> None:
    """Keep as many blank lines around a dropped part, at index `gap`, as the formatter wants."""
    above = below = gap
    while above > 0 and not lines[above - 1].strip():
        above -= 1
    while below < len(lines) and not lines[below].strip():
        below += 1
    if below == len(lines):
        lines[above:] = [""]
        return
    opens_block = above == 0 or indent(lines[above - 1]) < depth
    lines[above:below] = [""] * (gap - above if opens_block else max(gap - above, below - gap))


def definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Yield every function, class and method with its dotted name, in text order; none inside functions."""
    for node in body:
        if isinstance(node, Definition):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from definitions(node.body, f"{prefix}{node.name}.")


def decorated_line(node: ast.stmt) -> int:
    """Return the first line of a statement, with its decorators."""
    decorators = node.decorator_list if isinstance(node, Definition) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def end_line(node: ast.stmt | ast.expr) -> int:
    """Return the last line of a node, which the parser always sets."""
    assert node.end_lineno is not None
    return node.end_lineno


def text_before(line: str, offset: int) -> str:
    """Return the part of a line before an offset of the syntax tree, which counts UTF-8 bytes."""
    return line.encode()[:offset].decode()


def indent(line: str) -> int:
    """Return the number of leading spaces."""
    return len(line) - len(line.lstrip(" "))


def docstring(node: Definition) -> ast.Constant | None:
    """Return a definition's docstring node."""
    match node.body[0]:
        case ast.Expr(value=ast.Constant(value=str()) as constant):
            return constant
    return None


def is_private(name: str) -> bool:
    """Return whether a name begins with an underscore and is no dunder."""
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def bound_name(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> str:
    """Return the name that one part of an import binds: `import a.b` binds `a`."""
    return alias.asname or (alias.name.split(".")[0] if isinstance(node, ast.Import) else alias.name)


def import_lines(node: ast.Import | ast.ImportFrom, words: Iterable[str], tail: str = "") -> tuple[str, ...]:
    """Return an import of other words, as the formatter writes it; `tail` ends its last line."""
    words = list(words)
    if isinstance(node, ast.Import):
        return (f"import {', '.join(words)}{tail}",)
    start = f"from {'.' * node.level}{node.module or ''} import "
    line = start + ", ".join(words)
    return (line + tail,) if len(line) <= WIDTH else (f"{start}(", *(f"    {word}," for word in words), f"){tail}")


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


def mentioned(node: ast.AST) -> set[str]:
    """Return these and every `x` of an `object.x`. Names that are only imported do not count."""
    return names(node) | {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def with_helpers(known: Mapping[str, Definition], name: str) -> list[Definition]:
    """Return a definition of those `known` and the private ones that it uses, directly or not, in text order."""
    chosen, more = set[str](), {name}
    while more:
        chosen |= more
        used = set().union(*(mentioned(known[one]) for one in chosen))
        outside = [one for one in known if not any(f"{one}.".startswith(f"{each}.") for each in chosen)]
        more = {one for one in outside if is_private(last := one.split(".")[-1]) and last in used}
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
