"""One module's stub: the bodies are removed, then whatever served only them."""

import ast
from collections.abc import Collection, Mapping
from itertools import pairwise

from ...course.entities import Target, Task
from ..parsing import parse
from ..text import Definition, Edit, Text, bound_name, end_line, import_lines, names
from .bodies import replace_bodies
from .helpers import drop_helpers


def stub_source(source: str, tasks_by_target: Mapping[str, Task], needed: Collection[Target] = ()) -> str:
    """Return the stub of a module formatted by ruff; only targets' bodies, and what they alone used, change.

    `needed` are targets of other modules that the learner's code will call; their imports stay. Raise ValueError if a
    target is missing, a marker is unmatched, or the stub does not parse.
    """
    stub = replace_bodies(source, tasks_by_target)
    try:
        stub = drop_helpers(source, stub, tasks_by_target)
        stub = drop_imports(source, stub, needed)
        if stub != source:
            stub = _close_up_imports(stub)
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
    """Drop imports that the source uses and the stub does not, unless they bring a `needed` target; comments inside are
    lost.
    """
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
