"""The solution's program with changes in its text: how a known mistake in Python becomes something to run."""

import importlib
import sys
import textwrap
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

from ..course.nouns import Target
from ..paths import SOLUTION
from ..source.changed import DoesNotApply, Edit, changed
from ..source.names import with_helpers
from ..source.text import Text, decorated_line, definitions
from .packages import SOLUTION_NAME, load_solution
from .parts import solved_part


def source_of(target: Target, edits: Sequence[Edit] = ()) -> str:
    """The solution's text of a target and of its module's private helpers that it uses, after some changes.

    Everything stands on the line that it has in the file; a method is at the margin, as a plain function. Of another
    language it is the target's part alone.

    Raises:
        DoesNotApply: some old words do not stand there exactly once.
    """
    try:
        return changed(_unchanged(target) if target.is_python else solved_part(target), edits)
    except DoesNotApply as error:
        raise DoesNotApply(f"{error} in {target}, not once") from error


def patched(target: Target, edits: Sequence[Edit], package: str, name: str) -> Any:
    """The target of a package with changes in its text, among everything else that its module has.

    Its module is one of the package, with this name at the end, so that what is put in a place of the package reaches
    it too. What the package lacks of the solution's module, an import or a helper of another name, is the solution's.

    Raises:
        DoesNotApply: as `source_of`, or what comes out is not Python.
    """
    source, file = source_of(target, edits), SOLUTION / target.file
    try:
        code = compile(source, str(file), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise DoesNotApply(f"line {error.lineno} of {target} is not Python any more: {error.msg}") from error
    original = importlib.import_module(f"{package}.{target.module}")
    module = ModuleType(original.__name__)
    load_solution()
    vars(module).update(vars(importlib.import_module(f"{SOLUTION_NAME}.{target.module}")) | vars(original))
    sys.modules[f"{original.__name__}.{target.name}.{name}"] = module
    exec(code, vars(module))
    return vars(module)[target.name.rpartition(".")[2]]


@cache
def _unchanged(target: Target) -> str:
    text = Text((SOLUTION / target.file).read_text(encoding="utf-8"))
    known = dict(definitions(text.tree.body))
    lines = [""] * len(text.lines)
    for node in with_helpers(known, target.name):
        if node is known[target.name] or node.col_offset == 0:
            first, last = decorated_line(node), text.last_line(node)
            lines[first - 1 : last] = textwrap.dedent("\n".join(text.lines[first - 1 : last])).split("\n")
    return "\n".join(lines)
