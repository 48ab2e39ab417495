"""A module in exact pieces that a merge exchanges: functions, classes with their members, imports, the rest."""

import ast
import tokenize
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..parsing import parse_or_none
from ..text import Definition, Function, Text, decorated_line, docstring, end_line

Lines = tuple[str, ...]


@dataclass(frozen=True)
class Unit:
    """A statement. Beyond `lead` and `head`, its parts depend on its kind; the others are empty."""

    key: str  # the name that it defines, or another identifying text; "#2" for the second of a name
    node: ast.stmt
    lead: Lines  # the blank lines and comments above it
    head: Lines  # a definition's decorators and signature; all of another statement
    doc: Lines = ()
    body: Lines = ()  # of a function
    members: "Block | None" = None  # of a class

    @property
    def own(self) -> Lines:
        """Its text without what is above it."""
        return self.head + self.doc + self.body + (self.members.lines if self.members else ())

    @property
    def lines(self) -> Lines:
        """All of its text."""
        return self.lead + self.own

    @property
    def is_function(self) -> bool:
        """Whether it is a function, divided into signature, docstring and body."""
        return isinstance(self.node, Function) and bool(self.body)

    @property
    def unwritten(self) -> bool:
        """Whether it is a function whose whole body is `raise NotImplementedError(...)`."""
        body = plain(self.body)
        return self.is_function and len(body) == 1 and body[0].strip().startswith("raise NotImplementedError(")


@dataclass(frozen=True)
class Block:
    """The statements of a module or class, and the lines below the last one."""

    units: tuple[Unit, ...]
    tail: Lines

    @property
    def lines(self) -> Lines:
        """All of its text."""
        return tuple(line for unit in self.units for line in unit.lines) + self.tail

    def by_key(self) -> dict[str, Unit]:
        """Return the units by key, in text order."""
        return {unit.key: unit for unit in self.units}

    def count(self, key: str) -> int:
        """Return how many units have this name, whatever number is in the key."""
        return sum(unit.key.split("#")[0] == key.split("#")[0] for unit in self.units)


NOTHING = Block((), ())


def split(source: str) -> Block:
    """Split a module into pieces; raise SyntaxError if it is not Python."""
    try:
        text = Text(source)
    except (ValueError, RecursionError, tokenize.TokenError) as error:  # a null byte, brackets without end
        raise SyntaxError(str(error)) from error
    return _block(text, text.tree.body, 1, len(text.lines))


def plain(lines: Sequence[str]) -> list[str]:
    """Return lines without trailing blanks and without blank lines above and below."""
    return "\n".join(line.rstrip() for line in lines).strip("\n").split("\n")


def same(one: Unit | None, other: Unit | None) -> bool:
    """Return whether two units have the same text."""
    if one is None or other is None:
        return one is other
    return plain(one.lead) == plain(other.lead) and plain(one.own) == plain(other.own)


def parameters(unit: Unit) -> set[str]:
    """Return the names of a function's parameters."""
    assert isinstance(unit.node, Function)
    return {inner.arg for inner in ast.walk(unit.node.args) if isinstance(inner, ast.arg)}


def soundness(source: str) -> int:
    """Return 0 if a text is not Python, 1 if it parses, 2 if it compiles."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if (tree := parse_or_none(source)) is None:
            return 0
        try:
            compile(tree, "file", "exec")
        except (SyntaxError, ValueError, RecursionError):
            return 1
    return 2


def _block(text: Text, body: Sequence[ast.stmt], first: int, last: int) -> Block:
    units, seen = [], Counter[str]()
    position = first
    for group in _groups(body):
        start = decorated_line(group[0])
        end = min(last, max(text.last_line(node) for node in group))
        unit = _unit(text, group, tuple(text.lines[position - 1 : start - 1]), start, end)
        seen[unit.key] += 1
        units.append(unit if seen[unit.key] == 1 else replace(unit, key=f"{unit.key}#{seen[unit.key]}"))
        position = end + 1
    return Block(tuple(units), tuple(text.lines[position - 1 : last]))


def _groups(body: Sequence[ast.stmt]) -> list[list[ast.stmt]]:
    """Group statements that share a line, as in `a = 1; b = 2`."""
    groups: list[list[ast.stmt]] = []
    for node in body:
        if groups and decorated_line(node) <= end_line(groups[-1][-1]):
            groups[-1].append(node)
        else:
            groups.append([node])
    return groups


def _unit(text: Text, group: list[ast.stmt], lead: Lines, start: int, end: int) -> Unit:
    node = group[0]
    whole = Unit("; ".join(map(_key, group)), node, lead, tuple(text.lines[start - 1 : end]))
    if len(group) > 1 or not isinstance(node, Definition):
        return whole
    head, doc = text.head_line(node), docstring(node)
    below = head if doc is None else end_line(doc)
    rest = node.body[doc is not None :]
    if rest and decorated_line(rest[0]) <= below:  # def f(): return 1
        return whole
    parts = replace(whole, head=tuple(text.lines[start - 1 : head]), doc=tuple(text.lines[head:below]))
    if isinstance(node, ast.ClassDef):
        return replace(parts, members=_block(text, rest, below + 1, end))
    return replace(parts, body=tuple(text.lines[below:end]))


def _key(node: ast.stmt) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.ImportFrom(module=module, level=level):
            return f"from {'.' * level}{module or ''}"
        case ast.Assign(targets=targets):
            return " = ".join(map(ast.unparse, targets))
        case ast.AnnAssign(target=target):
            return ast.unparse(target)
        case ast.Expr(value=ast.Constant(value=str())):
            return "the docstring"
    return ast.unparse(node).split("\n")[0]
