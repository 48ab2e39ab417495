"""One module's stub: the bodies taken out, then whatever served only them."""

import ast
from collections.abc import Collection, Mapping
from itertools import pairwise

from ...course.nouns import Target, Task
from ..text import Definition, Edit, Text, end_line
from .bodies import replace_bodies
from .helpers import drop_helpers
from .imports import drop_imports


def stub_source(source: str, tasks_by_target: Mapping[str, Task], needed: Collection[Target] = ()) -> str:
    """The stub of one module. Outside the bodies of the targets and what they alone used, nothing changes.

    Args:
        source: the solved module, formatted by ruff.
        tasks_by_target: for each function, method ("Class.method") or class that the learner writes, its task.
        needed: what the learner's code will call from other modules; imports of these stay.

    Raises:
        ValueError: a target is missing, a marker is unmatched, or the stub would not parse.
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
    """The stub with one blank line between the docstring or imports and a plain statement, as the formatter wants it.

    There are two where a function stood between them that was dropped.
    """
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
