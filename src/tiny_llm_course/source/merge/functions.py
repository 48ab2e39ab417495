"""Three-way merge of one of the learner's files, function by function: what the learner wrote always stays."""

import ast
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ..parsing import parse
from ..text import mentioned
from .imports import imported, is_import, merge_import, paired
from .units import NOTHING, Block, Lines, Unit, parameters, plain, same, soundness, split

ABSENT = ("\0",)  # a part that equals no text


class Kept(NamedTuple):
    """Something that upstream changed and that stays as the learner has it."""

    name: str
    reason: str


@dataclass
class Merged:
    """The merged file, and what became of the functions, classes and constants (a method's name has a dot)."""

    text: str
    taken: list[str] = field(default_factory=list)  # upstream's changes that are in the text now
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)


def merge(base: str | None, mine: str, new: str) -> Merged:
    """Merge upstream's `new` file into the learner's, which started from `base`; SyntaxError if one is not Python.

    An untouched function becomes upstream's. A touched one keeps its body, and takes a new signature or docstring only
    if the learner has not touched that and the body fits. Lines end with newlines in all three texts.
    """
    block, there = split(mine), split(new)
    try:
        start = NOTHING if base is None else split(base)
    except SyntaxError:
        start = NOTHING
    if base == new:
        return Merged(mine)
    run = _settle(start, paired(start, block), there)
    if base == mine:
        return replace(run.merged, text=new, kept=[])
    if soundness(run.merged.text) >= soundness(mine) and _shape(split(run.merged.text)) == _shape(run.result):
        return run.merged
    return Merged(mine, kept=[Kept("the whole file", "upstream's changes do not fit into yours")])


def _settle(base: Block, mine: Block, new: Block) -> "_Merge":
    """Merge repeatedly, each time with what was dropped and is still needed, until nothing is missing."""
    needed: set[str] = set()
    while True:
        run = _Merge(needed, base, mine)
        run.result = run.block(base, mine, new)
        run.merged.text = "\n".join(run.result.lines)
        missing = run.missing(base, new) - needed
        if not missing:
            return run
        needed |= missing


class _Merge:
    """One pass over a module. `needed` are keys and imported names ("key:name") that must not be dropped."""

    def __init__(self, needed: set[str], base: Block, mine: Block) -> None:
        self.needed = needed
        self.own = dict(_bindings(mine).items() - _bindings(base).items())  # what the learner has bound, and where
        self.result = NOTHING
        self.merged = Merged("")

    def missing(self, base: Block, new: Block) -> set[str]:
        """Return what the merged text mentions but no longer contains."""
        try:
            used, bound = mentioned(parse(self.merged.text)), set(_bindings(split(self.merged.text)))
        except SyntaxError:
            return set()
        gone = self.merged.removed
        found = {name for name in gone if name.split(".")[-1] in used - (set() if "." in name else bound)}
        for unit in (*base.units, *new.units):
            if is_import(unit):
                found |= {f"{unit.key}:{name}" for name in imported(unit).keys() & (used - bound)}
        return found

    def block(self, base: Block, mine: Block, new: Block, prefix: str = "") -> Block:
        """Merge in the learner's order, with upstream's new units after those that they follow there."""
        was, comes = base.by_key(), new.by_key()
        units = []
        for unit in mine.units:
            twice = base.count(unit.key) != new.count(unit.key) and max(mine.count(unit.key), new.count(unit.key)) > 1
            merged = self.unit(was.get(unit.key), unit, comes.get(unit.key), prefix, twice)
            if merged is not None:
                units.append(merged)
        for number, unit in enumerate(new.units):
            if unit.key not in mine.by_key():
                fresh = self.fresh(was.get(unit.key), unit, mine, prefix)
                if fresh is not None:
                    places = {other.key: place for place, other in enumerate(units, 1)}
                    above = [places[other.key] for other in new.units[:number] if other.key in places]
                    units.insert(above[-1] if above else 0, fresh)
        return Block(tuple(units), _pick(base.tail, mine.tail, new.tail)[0])

    def fresh(self, base: Unit | None, new: Unit, mine: Block, prefix: str) -> Unit | None:
        """Merge a unit that the learner does not have: upstream added it, or the learner deleted it."""
        if is_import(new):
            return merge_import(base, None, new, self.names_needed(new.key), self.own.keys())
        name = prefix + new.key
        if base is not None:
            if not same(base, new):
                self.keep(name, "you deleted it; upstream changed it")
            return None
        if mine.count(new.key) or (not prefix and new.key in self.own):
            self.keep(name, "upstream has one of that name, too")
            return None
        self.merged.added.append(name)
        return new

    def unit(self, base: Unit | None, mine: Unit, new: Unit | None, prefix: str, twice: bool) -> Unit | None:
        """Return the merged unit; None if it is removed."""
        name = prefix + mine.key
        if is_import(mine):
            elsewhere = {own for own, key in self.own.items() if key != mine.key}
            return merge_import(base, mine, new, self.names_needed(mine.key), elsewhere)
        if new is None:
            return mine if base is None else self.gone(base, mine, name)
        if same(base, new) or same(mine, new):
            return mine
        if twice and not same(base, mine):
            self.keep(name, "upstream defines it more than once, or no longer does")
            return mine
        if same(base, mine):
            self.merged.taken.append(name)
            return new
        if mine.members and new.members and (base is None or base.members):
            return self.parts(base, mine, new, name)
        if mine.is_function and new.is_function and (base.is_function if base else mine.unwritten):
            return self.parts(base, mine, new, name)
        self.keep(name, "you and upstream both changed it" if base else "upstream has one of that name, too")
        return mine

    def gone(self, base: Unit, mine: Unit, name: str) -> Unit | None:
        """Remove what upstream has removed, unless the learner wrote it or uses it."""
        untouched = mine.unwritten and plain(base.lead + base.doc) == plain(mine.lead + mine.doc)
        if not same(base, mine) and not untouched:
            self.keep(name, "upstream removed it; you wrote it")
        elif name in self.needed:
            self.keep(name, "upstream removed it; your code uses it")
        else:
            self.merged.removed.append(name)
            return None
        return mine

    def parts(self, base: Unit | None, mine: Unit, new: Unit, name: str) -> Unit:
        """Merge a function or class that both changed part by part."""
        was = base or replace(mine, lead=ABSENT)
        if base is None and mine.members:
            was = replace(mine, lead=ABSENT, head=ABSENT, doc=ABSENT, members=NOTHING)
        lead, _ = _pick(was.lead, mine.lead, new.lead)
        head, own_head = _pick(was.head, mine.head, new.head)
        doc, own_doc = _pick(was.doc, mine.doc, new.doc)
        body, own_body = (new.body, False) if mine.unwritten else _pick(was.body, mine.body, new.body)
        lost = ["signature"] * own_head + ["docstring"] * own_doc + ["body"] * (own_body and not new.unwritten)
        why = ""
        if mine.members is None:
            # The learner's body, upstream's signature.
            foreign = plain(body) != plain(new.body) and plain(head) == plain(new.head)
            assert isinstance(mine.node, ast.FunctionDef | ast.AsyncFunctionDef)
            used = {name for node in mine.node.body for name in mentioned(node)}
            unknown = (parameters(was) & used) - parameters(new)
            if foreign and unknown:
                head, doc, lost = mine.head, mine.doc, ["signature"]
                why = f"; your body uses {', '.join(sorted(unknown))}, now gone"
            members = None
        else:
            assert was.members is not None
            assert new.members is not None
            members = self.block(was.members, mine.members, new.members, f"{name}.")
        merged = replace(mine, lead=lead, head=head, doc=doc, body=body, members=members)
        mixed = plain(body) != plain(mine.body) and plain(head) != plain(new.head)  # upstream's body, another signature
        indented = ["if True:"] * merged.own[0].startswith((" ", "\t"))
        if mine.members is None and (mixed or not soundness("\n".join([*indented, *merged.own]))):
            self.keep(name, "you and upstream both changed it")
            return mine
        if lost:
            self.keep(name, f"upstream changed its {' and '.join(lost)}{why}")
        if mine.members is None and not same(merged, mine):
            self.merged.taken.append(name)
        return merged

    def names_needed(self, key: str) -> set[str]:
        """Return the names of an import statement that must not be dropped."""
        return {need.removeprefix(f"{key}:") for need in self.needed if need.startswith(f"{key}:")}

    def keep(self, name: str, reason: str) -> None:
        """Record that something stays as the learner has it."""
        self.merged.kept.append(Kept(name, reason))


def _pick(base: Lines, mine: Lines, new: Lines) -> tuple[Lines, bool]:
    """Return the part that was changed, the learner's if both were, and whether upstream's change is lost."""
    if plain(base) == plain(mine):
        return new, False
    return mine, plain(new) not in (plain(base), plain(mine))


def _shape(block: Block) -> list[object]:
    """Return the names in a module and its classes: if they do not read back, an indentation did not fit."""
    return [(unit.key.split("#")[0], _shape(unit.members or NOTHING)) for unit in block.units]


def _bindings(block: Block) -> dict[str, str]:
    """Return the names that a module's statements bind outside functions, each with the key of its unit."""
    found: dict[str, str] = {}
    for unit in block.units:
        if is_import(unit):
            found |= dict.fromkeys(imported(unit), unit.key)
        elif isinstance(unit.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[unit.node.name] = unit.key
        else:
            for node in ast.walk(unit.node):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    found[node.id] = unit.key
                elif isinstance(node, ast.Import | ast.ImportFrom):
                    found |= dict.fromkeys((alias.asname or alias.name for alias in node.names), unit.key)
    return found
