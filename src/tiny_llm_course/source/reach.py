"""The code that a task in Python runs beyond its target: helpers, constants, the learner's own files."""

import ast
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from .language import Reach
from .parsing import parse_or_none
from .text import Definition, decorated_line, definitions, docstring, end_line

Targets = Mapping[str, Collection[str]]
Import = ast.Import | ast.ImportFrom

PACKAGE = "tiny_llm"
BY_NAME = ("__import__", "import_module", "resolve_name", "run_module", "find_spec")  # take a module's name as a string
ALL = ("eval", "exec", "globals", "locals", "vars")  # with these, code reaches whatever its file defines


class _Piece(NamedTuple):
    """A statement that counts, except for definitions in it that belong to other tasks."""

    name: str  # that it defines, dotted; "" for none
    node: ast.stmt
    without: frozenset[str] = frozenset()


def reach(text: str, file: str, name: str | None, targets: Targets) -> Reach:
    """Return the code of a target in a file, as `Python.reach` specifies.

    In the target's own file, that is what it uses, directly or not, and what importing the file does: statements that
    define no name and import no target. Of another file it is all but the targets. If the file does not define the
    target, or is not Python, it counts as a whole.
    """
    statements, others, folders = _statements(text), frozenset(targets.get(file, ())) - {name}, file.split("/")[:-1]
    files = ["/".join([*folders[:depth], "__init__.py"]) for depth in range(len(folders) + 1)]
    if statements is None:
        return Reach([text], files)
    if name is None:
        mine = [node for node in statements if not _bound(node) & others]
        pieces = [_Piece(min(_bound(node), default=""), node, others) for node in mine]
    elif name in definitions_by_name(text):
        others_too = [n for n in statements if not isinstance(n, Definition) and _files(n, file, targets)]
        always = [n for n in statements if not _bound(n) or n in others_too]
        pieces = _used(always, name, _bindings(statements), others)
    else:
        return Reach([text], [*files, *(found for node in statements for found in _files(node, file, targets))])
    files += [found for piece in pieces for found in _files(_bare(piece), file, targets)]
    return Reach([_code(text, piece) for piece in pieces], files)


@lru_cache(maxsize=128)
def definitions_by_name(text: str) -> Mapping[str, ast.stmt]:
    """Return a module's definitions, also in classes, by dotted name: the last one of each; none if not Python."""
    statements = _statements(text) or []
    assigned = {name: node for node in statements if not isinstance(node, Import) for name in _bound(node)}
    return assigned | dict(definitions(statements))


@lru_cache(maxsize=128)
def _statements(text: str) -> list[ast.stmt] | None:
    """Return a module's statements, imports split into one per name; None if it is not Python."""
    if (tree := parse_or_none(text.encode(errors="surrogateescape"))) is None:
        return None
    found: list[ast.stmt] = []
    for place, node in enumerate(tree.body):
        match node:
            case ast.Expr(value=ast.Constant(value=str())) if place == 0:
                pass  # the docstring
            case ast.If(test=ast.Compare(left=ast.Name(id="__name__"))):
                pass  # is not run when the file is imported
            case ast.Import(names=aliases):
                found += [ast.Import([alias]) for alias in aliases]
            case ast.ImportFrom(module=module, names=aliases, level=level):
                found += [ast.ImportFrom(module, [alias], level) for alias in aliases]
            case _:
                found.append(node)
    return found


def _bound(node: ast.stmt) -> frozenset[str]:
    """Return the names that a statement defines; none if it does anything else."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return frozenset([name])
        case ast.Import(names=[alias]):
            return frozenset([alias.asname or alias.name.split(".")[0]])
        case ast.ImportFrom(names=[alias]):
            return frozenset([alias.asname or alias.name]) - {"*"}
        case ast.Assign(targets=places):
            pass
        case ast.AnnAssign(target=place) | ast.AugAssign(target=place):
            places = [place]
        case _:
            return frozenset()
    parts = [part for place in places for part in ast.walk(place)]
    if any(isinstance(part, ast.Attribute | ast.Subscript) for part in parts):
        return frozenset()
    return frozenset(part.id for part in parts if isinstance(part, ast.Name))


def _bindings(statements: Sequence[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """Return all statements that define a name, also in classes: a later one may use an earlier one."""
    found: dict[str, list[ast.stmt]] = {}
    for node in statements:
        for name in _bound(node):
            found.setdefault(name, []).append(node)
        if isinstance(node, ast.ClassDef):
            for name, member in definitions(node.body, f"{node.name}."):
                found.setdefault(name, []).append(member)
    return found


def _used(always: list[ast.stmt], name: str, known: dict[str, list[ast.stmt]], others: frozenset[str]) -> list[_Piece]:
    """Return the pieces that always count, those of a name, and all that they use that is no other task's."""
    pieces, seen = [_Piece("", node) for node in always], set(others)

    def add(names: Sequence[str]) -> None:
        for one in names:
            if one in known and one not in seen:
                seen.add(one)
                pieces.extend(_Piece(one, node, others) for node in known[one])
                holder = one.rpartition(".")[0]  # the class of a method counts, without its other methods
                methods = frozenset(one for one in known if one.startswith(f"{holder}.") and not one.endswith("__"))
                pieces.extend(_Piece(holder, node, methods | others) for node in known.get(holder, ()))

    add([name])
    for piece in pieces:  # which grows meanwhile
        mentioned = _mentions(piece)
        add([*known] if set(ALL) & set(mentioned) else mentioned)
    return list(dict.fromkeys(pieces))


@lru_cache(maxsize=8192)
def _mentions(piece: _Piece) -> list[str]:
    """Return the names that a piece uses, also as strings; for a method also those of its class, and `__init__`."""
    scope = piece.name.rpartition(".")[0]
    found = [f"{scope}.__init__"]
    for node in ast.walk(_bare(piece)):
        match node:
            case ast.Name(id=name):
                found.append(name)
            case ast.Attribute(attr=name):
                found.append(f"{scope}.{name}")
            case ast.Constant(value=str(name)):
                found += [name, f"{scope}.{name}"]
    return list(dict.fromkeys(found))


def import_of(node: ast.AST) -> Import | None:
    """Return the import that a statement, or a call with a module's name as a string, makes, if any."""
    match node:
        case ast.Import() | ast.ImportFrom():
            return node
        case ast.Call(func=ast.Name(id=by) | ast.Attribute(attr=by), args=[ast.Constant(value=str(text)), *_]):
            path = text.partition(":")[0]
            name = path.lstrip(".")
            if by in BY_NAME and name:
                level = len(path) - len(name)
                return ast.ImportFrom(name, [ast.alias("*")], level) if level else ast.Import([ast.alias(name)])
    return None


@lru_cache(maxsize=8192)
def _imports(node: ast.stmt) -> list[Import]:
    return [found for part in ast.walk(node) if (found := import_of(part))]


def _files(statement: ast.stmt, file: str, targets: Targets) -> list[str]:
    """Return the learner's modules from which code in a file imports anything that is no target."""
    found = []
    for node in _imports(statement):
        match node:
            case ast.Import(names=aliases):
                found += [alias.name.split(".")[1:] for alias in aliases if alias.name.split(".")[0] == PACKAGE]
            case ast.ImportFrom(module=module, names=aliases, level=level):
                names = module.split(".") if module else []
                if level:
                    folders = file.split("/")[:-1]
                    names = folders[: len(folders) + 1 - level] + names
                elif names[0] != PACKAGE:
                    continue
                else:
                    names = names[1:]
                known = {target.split(".")[0] for target in targets.get(f"{'/'.join(names)}.py", ())}
                for alias in aliases:
                    if alias.name not in known:
                        found += [names, [*names, alias.name]]
    return [path for names in found for path in ("/".join(names) + ".py", "/".join([*names, "__init__.py"]))]


@lru_cache(maxsize=8192)
def _bare(piece: _Piece) -> ast.stmt:
    """Return the statement without docstrings and without what in it does not count."""
    scope = "".join(piece.name.rpartition(".")[:2])
    dropped = [part for name, part in definitions([piece.node], scope) if name in piece.without]
    try:
        bare: ast.stmt = _without(piece.node, dropped)
        return bare
    except RecursionError:  # Python has read it, and its tools go deeper
        return piece.node


def _without(node: Any, dropped: Sequence[ast.stmt]) -> Any:
    """Return a statement without docstrings and some members of its classes; what does not change is not copied."""
    changed = {}
    for field, value in ast.iter_fields(node):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt | ast.excepthandler | ast.match_case):
            kept = value[1:] if field == "body" and isinstance(node, Definition) and docstring(node) else value
            kept = [part for part in kept if not (isinstance(node, ast.ClassDef) and part in dropped)]
            changed[field] = [_without(part, dropped) for part in kept]
    return type(node)(**{**vars(node), **changed}) if changed else node


@lru_cache(maxsize=8192)
def _code(text: str, piece: _Piece) -> str:
    """Return the code of a piece in one layout for all."""
    try:
        return ast.unparse(_bare(piece))
    except RecursionError:
        return "\n".join(text.split("\n")[decorated_line(piece.node) - 1 : end_line(piece.node)])
