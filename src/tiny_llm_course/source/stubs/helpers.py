"""Drop the private helpers that only the solution's bodies called: they would give the answer away."""

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ..parsing import parse
from ..text import Definition, Edit, Text, is_private, mentioned, names


@dataclass(frozen=True)
class _Unit:
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
    mentioned = {use for unit in _units(parse(source).body, targets) for use in unit.uses - {unit.key}}
    waiting = [unit for unit in units if unit.key is not None and (unit.in_target or unit.key in mentioned)]
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
