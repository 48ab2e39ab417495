"""Small repairs of a learner's program: the line in which one of them makes all checks pass is shown.

Unlike the slips of our solution, they do not ask how the program is built. Each changes one place of the syntax tree.
"""

import ast
import copy
from collections.abc import Iterator, Sequence, Set
from typing import Any, NamedTuple

from .alternatives import alternatives, in_place_of
from .parsing import parse, parse_or_none
from .scope import Scope
from .slips import LONGEST, places
from .text import Definition, bound_name, definitions, end_line, mentioned, names, with_helpers

# A repaired program must not reach for other files or processes.
OUTSIDE = {"os", "shutil", "subprocess", "signal", "socket", "open", "Path", "unlink", "rmdir", "rename", "mkdir"}
OUTSIDE |= {"touch", "write_text", "write_bytes", "kill"}
SAID = {  # the kinds of repairs in the order in which they are tried, and what is said if one makes all checks pass
    "a branch removed": "the branch seems one too many",
    "a different comparison": "the comparison seems wrong",
    "a different condition": "the condition seems wrong",
    "a test for None": "0, or something empty, seems to be taken for None",
    "off by one": "a number seems off by one",
    "a different slice": "the slice seems wrong",
    "a different axis": "the axis seems wrong",
    "a different constant": "a constant seems wrong",
    "a different operator": "an operator seems wrong",
    "an operator removed": "one operation seems too many",
    "an operator added": "an operation seems missing",
    "swapped operands": "two operands seem exchanged",
    "swapped arguments": "two arguments seem exchanged",
    "a different order of elements": "the order of elements seems wrong",
    "a different function": "the wrong function seems to be called",
    "an update in place": "an object seems to be changed where a new one is needed",
    "a different dtype": "the dtype seems wrong",
    "a copy": "a copy seems missing",
    "an argument removed": "one argument seems too many",
    "different arguments": "the arguments seem wrong",
    "an index removed": "one index seems too many",
    "a call removed": "one call seems too many",
    "a statement removed": "the statement seems one too many",
    "a different variable": "the wrong variable seems to be used",
    "a call added": "a call seems missing",
    "`while` in place of `if`, or the reverse": "`while` and `if` seem exchanged",
    "`break` in place of `continue`, or the reverse": "`break` and `continue` seem exchanged",
    "different indentation": "the indentation seems wrong",
    "a different order of statements": "this statement and the next one seem exchanged",
    "a different expression": "an expression seems wrong",
    "a factor added": "a factor seems missing",
    "a statement added before it": "a statement before it seems missing",
    "a term added": "a term seems missing",
}
KINDS = (*SAID,)
BLOCKS = (ast.For, ast.While, ast.If, ast.With)


class Repair(NamedTuple):
    """One repair: its kind, of KINDS; the line that it changes, by number and text; the program, until the next one."""

    kind: str
    line: int
    code: str
    program: ast.Module


class Method(NamedTuple):
    """A method of a learner's class, its lines, and the program with the solution's in its place."""

    name: str
    lines: range
    program: ast.Module


def said(found: Sequence[Repair]) -> str:
    """Say where the mistake is, by the repairs of one kind with which all checks pass, in one line or two."""
    first, *others = sorted({each.line for each in found})
    where = f"In line {first}" + (f" or in line {others[0]}" if others else "")
    code = "" if others else f" `{found[0].code}`"
    return f"{where}, {SAID[found[0].kind]}: with one small change there, all checks pass.{code}"


Site = tuple[ast.AST, str, int, Any]  # the node of which a field changes, the field, in which line, and the new value


def with_our_methods(text: str, name: str, ours: str) -> Iterator[Method]:
    """Yield a class with one of several methods replaced by that of `ours`, the solution's class, never shown."""
    _, nodes = _repaired(text, name)
    theirs = dict(definitions(parse(ours).body))
    for node in nodes:
        body = node.body if isinstance(node, ast.ClassDef) else []
        methods = [each for each in body if isinstance(each, ast.FunctionDef)]
        for method in methods if len(methods) > 1 else []:
            place = body.index(method)
            if other := theirs.get(f"{name}.{method.name}"):
                body[place] = other
                yield Method(method.name, range(method.lineno, end_line(method) + 1), ast.Module([*nodes], []))
                body[place] = method


def _repaired(text: str, name: str) -> tuple[ast.Module, list[Definition]]:
    """Return a file's tree, and a definition with the private helpers that it uses, if it is there and safe to run."""
    tree = parse_or_none(text) or ast.Module([], [])
    known = dict(definitions(tree.body))
    used = with_helpers(known, name) if name in known else []
    nodes = [node for node in used if node.col_offset == 0 or node is known[name]]
    return tree, [] if any(OUTSIDE & mentioned(node) for node in nodes) else nodes


def repairs(text: str, name: str, ours: str, within: range | None = None) -> Iterator[Repair]:
    """Yield the repairs of a definition and the private helpers that it uses, the likeliest kinds first.

    They may take expressions and statements from `ours`, the solution's definition, which is never shown. In a class,
    all are in the lines `within`, if given.
    """
    tree, nodes = _repaired(text, name)
    program = ast.Module([*nodes], [])
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    module = (
        names(tree)
        | {*dict(definitions(tree.body))}
        | {bound_name(node, alias) for node in imports for alias in node.names}
    )
    all_of_them = [each for node in nodes for each in (node.body if isinstance(node, ast.ClassDef) else [node])]
    functions = [each for each in all_of_them if isinstance(each, ast.FunctionDef)]
    functions = [each for each in functions if within is None or each.lineno in within or each in nodes]
    sites = [site for each in functions for site in _sites(each, module, parse(ours))]
    lines = text.split("\n")
    for rank, (parent, field, line, value) in sorted(sites, key=lambda each: each[0]):
        before = getattr(parent, field)
        setattr(parent, field, value)
        _place(value, line)
        yield Repair(KINDS[rank], line, lines[line - 1].strip()[:LONGEST], program)
        setattr(parent, field, before)


def _place(value: Any, line: int) -> None:
    """Give new nodes the line of the node that they replace: the compiler asks for one."""
    for each in value if isinstance(value, list) else [value]:
        for node in ast.walk(each):
            if "lineno" in node._attributes and not hasattr(node, "col_offset"):
                vars(node).update(lineno=line, col_offset=0, end_lineno=line, end_col_offset=0)


def _sites(function: ast.FunctionDef, module: Set[str], ours: ast.AST) -> Iterator[tuple[int, Site]]:
    """Yield the repairs of one definition: each by the rank of its kind."""
    scope = Scope.of(function, module, ours)
    for parent, field, index, node in places(function, skipped=()):
        if any(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in (parent, node)):
            continue  # a docstring
        if isinstance(node, ast.stmt) and index is not None:
            yield from _of_block(parent, field, index, scope)
        if not hasattr(node, "lineno"):
            continue
        for kind, other in (*alternatives(node, scope), *in_place_of(parent, field, node, scope)):
            value: Any = other
            if index is not None:
                value = [*getattr(parent, field)]
                value[index] = other
            yield KINDS.index(kind), (parent, field, node.lineno, value)


def _of_block(parent: ast.AST, field: str, index: int, scope: Scope) -> Iterator[tuple[int, Site]]:
    """Yield what concerns a statement as a whole: without it, after the next one, in another block."""
    block: list[ast.stmt] = getattr(parent, field)
    node = block[index]

    def site(kind: str, value: list[ast.stmt]) -> tuple[int, Site]:
        return KINDS.index(kind), (parent, field, node.lineno, value)

    before, after = block[:index], block[index + 1 :]
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return
    for each in scope.statements:
        yield site("a statement added before it", [*before, each, node, *after])
    kind = "a branch removed" if isinstance(node, ast.If) else "a statement removed"
    yield site(kind, [*before, ast.Pass(), *after])
    if after and not isinstance(node, ast.Return):
        yield site("a different order of statements", [*before, after[0], node, *after[1:]])
    if isinstance(node, BLOCKS):
        if len(node.body) > 1:
            less = copy.copy(node)
            less.body = node.body[:-1]
            yield site("different indentation", [*before, less, node.body[-1], *after])
        if after:
            more = copy.copy(node)
            more.body = [*node.body, after[0]]
            yield site("different indentation", [*before, more, *after[1:]])
