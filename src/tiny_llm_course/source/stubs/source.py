"""One module's stub: the bodies are removed, then whatever served only them."""

import ast
from collections.abc import Collection, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from ...course.entities import Target, Task
from ..parsing import parse
from ..text import Definition, Edit, Text, bound_name, end_line, import_lines, is_private, mentioned, names
from .bodies import replace_bodies


class _Unit(NamedTuple):
    """A statement that stays or goes as a whole.

    Its key is how others mention it: `_f` for a module's helper, `._f` for a method on any object, `C._f` for a method
    of class C mentioned inside C. Without a key it always stays.
    """

    node: ast.stmt
    key: str | None
    uses: frozenset[str]
    in_target: bool  # inside a class that the learner writes, where even an unmentioned helper is an answer


def drop_helpers(source: str, stub: str, targets: Collection[str]) -> str:
    """Drop the private functions, classes, constants and methods that the rest of the stub does not reach.

    In a class that is a target, only its own remaining code counts, so that another class's method of the same name
    cannot keep a solved one. What nothing in the source mentions either, stays: it was meant to be there.
    """
    text = Text(stub)
    units = list(_units(text.tree.body, targets))
    used = {use for unit in _units(parse(source).body, targets) for use in unit.uses - {unit.key}}
    waiting = [unit for unit in units if unit.key is not None and (unit.in_target or unit.key in used)]
    reached = {use for unit in units if unit not in waiting for use in unit.uses}
    while found := [unit for unit in waiting if unit.key in reached]:
        waiting = [unit for unit in waiting if unit not in found]
        reached |= {use for unit in found for use in unit.uses}
    return text.edited(Edit(text.first_line(unit.node), text.last_line(unit.node)) for unit in waiting)


def _units(
    body: list[ast.stmt], targets: Collection[str], prefix: str = "", owner: str = "", in_target: bool = False
) -> Iterator[_Unit]:
    """Yield the statements of a module; a class with something to write is split.

    `prefix` precedes names in this body ("" or "Class."); `owner` is the outermost class that was split; `in_target`
    says whether the body belongs to a class that is a target.
    """
    for node in body:
        name = _defined(node)
        is_target = f"{prefix}{name}" in targets
        has_target = name != "" and any(f"{target}.".startswith(f"{prefix}{name}.") for target in targets)
        if isinstance(node, ast.ClassDef) and (has_target or (in_target and not is_private(name))):
            outside = [*node.decorator_list, *node.bases, *node.keywords]
            yield _Unit(node, None, frozenset().union(*map(names, outside)), in_target)
            yield from _units(node.body, targets, f"{prefix}{name}.", owner or name, in_target or is_target)
            continue
        uses = names(node)
        mentions = mentioned(node)
        uses |= {f".{mention}" for mention in mentions}
        if owner:
            uses |= {f"{owner}.{mention}" for mention in mentions}
        key = None
        if is_private(name) and not has_target and (not owner or isinstance(node, Definition)):
            key = name if not owner else f"{owner}.{name}" if in_target else f".{name}"
        yield _Unit(node, key, frozenset(uses), in_target)


def _defined(node: ast.stmt) -> str:
    """Return the name that a definition or a simple constant defines, or ""."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


def stub_source(source: str, tasks_by_target: Mapping[str, Task], needed: Collection[Target] = ()) -> str:
    """Return the stub of a module formatted by ruff; only targets' bodies, and what they alone used, change.

    `needed` are targets of other modules that the learner's code will call; their imports stay. Raise ValueError if a
    target is missing, a marker is unmatched, or the stub does not parse.
    """
    stub = replace_bodies(source, tasks_by_target)
    if stub == source:
        return source
    try:
        stub = drop_helpers(source, stub, tasks_by_target)
        stub = _close_up_imports(drop_imports(source, stub, needed))
    except SyntaxError as error:
        raise ValueError(f"line {error.lineno} of the stub does not parse: {error.msg}") from error
    return stub


def _close_up_imports(stub: str) -> str:
    """Reduce a gap below docstring and imports to one blank line, as the formatter does."""
    text = Text(stub)
    head = text.tree.body[0]
    first = head if isinstance(head, ast.Expr) and isinstance(head.value, ast.Constant) else None  # the docstring
    edits = []
    for above, below in pairwise(text.tree.body):
        blank = next_line = end_line(above) + 1
        while text.is_blank(next_line):
            next_line += 1
        is_head = isinstance(above, ast.Import | ast.ImportFrom) or above is first
        definition_follows = isinstance(below, Definition) and next_line == text.first_line(below)
        if is_head and not definition_follows and next_line - blank > 1:
            edits.append(Edit(blank, next_line - 1, ("",)))
    return text.edited(edits)


PACKAGE = "tiny_llm"


def drop_imports(source: str, stub: str, needed: Collection[Target]) -> str:
    """Drop imports that the source uses and the stub does not, except of `needed` targets; comments inside are lost."""
    text = Text(stub)
    orphans = names(parse(source)) - names(text.tree)
    edits: list[Edit] = []
    for node in text.tree.body:
        if not isinstance(node, ast.Import | ast.ImportFrom) or getattr(node, "module", "") == "__future__":
            continue
        names_of = node.names
        kept = [each for each in names_of if bound_name(node, each) not in orphans or _is_needed(node, each, needed)]
        if len(kept) < len(node.names):
            comment = text.comments.get(end_line(node))
            first = text.first_line(node) if not kept else node.lineno
            lines = import_lines(node, map(ast.unparse, kept), f"  {comment}" * bool(comment)) if kept else ()
            edits.append(Edit(first, end_line(node), lines))
    return text.edited(edits)


def _is_needed(node: ast.Import | ast.ImportFrom, alias: ast.alias, needed: Collection[Target]) -> bool:
    """Return whether this import from the package brings a needed target, or the class or module that holds one."""
    if isinstance(node, ast.Import):
        return False
    module = node.module or ""
    if node.level == 0:
        if module.split(".")[0] != PACKAGE:
            return False
        module = module.removeprefix(PACKAGE).lstrip(".")
    imported = f".{module}.{alias.name}" if module else f".{alias.name}"
    holders = [f".{target.module}.{target.name.split('.')[0]}" for target in needed]
    modules = [f".{target.module}" for target in needed]
    # A relative import omits the shared folders, so the end of the path decides.
    return any(holder.endswith(imported) for holder in holders + modules)
