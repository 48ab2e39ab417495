"""One module's stub: the bodies are removed, then whatever served only them."""

import ast
from collections.abc import Collection, Mapping
from itertools import pairwise

from ...course.entities import Target, Task
from ..text import Definition, Edit, Text, end_line
from .bodies import replace_bodies
from .helpers import drop_helpers
from .imports import drop_imports


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
