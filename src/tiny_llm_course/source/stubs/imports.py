"""Drop the imports that only the solution's bodies used, and keep those that the learner's will."""

import ast
from collections.abc import Collection

from ...course.entities import Target
from ..names import names
from ..parsing import parse
from ..text import Edit, Text, bound_name, end_line, import_lines

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
        kept = [
            alias for alias in node.names if bound_name(node, alias) not in orphans or _is_needed(node, alias, needed)
        ]
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
