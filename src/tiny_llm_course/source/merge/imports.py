"""Three-way merge of one import statement, name by name: one line may hold the learner's and upstream's names."""

import ast
from collections.abc import Collection
from dataclasses import replace

from ..text import bound_name, import_lines
from .units import Block, Unit, plain


def is_import(unit: Unit | None) -> bool:
    """Return whether the unit is a single import statement."""
    return unit is not None and isinstance(unit.node, ast.Import | ast.ImportFrom) and ";" not in unit.key


def imported(unit: Unit | None) -> dict[str, str]:
    """Return the names that an import statement binds, each with the words that bind it."""
    if unit is None:
        return {}
    assert isinstance(unit.node, ast.Import | ast.ImportFrom)
    return {bound_name(unit.node, alias): ast.unparse(alias) for alias in unit.node.names}


def paired(base: Block, mine: Block) -> Block:
    """Number the learner's imports from one module so that those most like the base's get its keys."""
    units = list(mine.units)
    for key in {unit.key for unit in units if is_import(unit) and mine.count(unit.key) > 1 and "#" not in unit.key}:
        was = imported(base.by_key().get(key)).keys()
        places = [place for place, unit in enumerate(units) if unit.key.split("#")[0] == key]
        places.sort(key=lambda place: -len(was & imported(units[place]).keys()))
        for number, place in enumerate(places, 1):
            units[place] = replace(units[place], key=key if number == 1 else f"{key}#{number}")
    return replace(mine, units=tuple(units))


Import = Unit | None


def merge_import(base: Import, mine: Import, new: Import, keep: Collection[str], taken: Collection[str]) -> Import:
    """Merge the names that both have, either added, or `keep` lists; the learner binds `taken` ones elsewhere."""
    was, has, comes = imported(base), imported(mine), imported(new)
    wanted = {}
    for name, words in {**was, **has, **comes}.items():
        if name in keep or (name in has and (name in comes or name not in was)):
            wanted[name] = has[name] if name in has and has[name] != was.get(name) else words
        elif name in comes and name not in was and name not in taken:
            wanted[name] = words
    like = new or mine or base
    if not wanted or like is None:
        return None
    kept = mine and base and (plain(mine.lead) != plain(base.lead) or (new and plain(new.lead) == plain(base.lead)))
    lead = mine.lead if mine and (kept or not base) else like.lead
    for unit in (mine, new) if base and mine and plain(mine.own) != plain(base.own) else (new, mine):
        if unit and imported(unit) == wanted:
            return replace(unit, lead=lead)
    assert isinstance(like.node, ast.Import | ast.ImportFrom)
    ordered = sorted(wanted.values(), key=lambda w: (0 if w.isupper() else 1 if w[:1].isupper() else 2, w.lower()))
    return replace(like, lead=lead, head=import_lines(like.node, ordered))
