"""The solution's program with edits in its text: how a known mistake in Python becomes runnable."""

import ast
import importlib
import sys
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any

from ..course.entities import Target
from ..course.registry import load_course
from ..paths import SOLUTION
from ..source.edits import DoesNotApply, Edit, changed
from ..source.text import Definition, Text, decorated_line, definitions, with_helpers
from .packages import SOLUTION_NAME, load_solution, program
from .parts import solved_part

SEAM = "\n\f\n"  # between the texts of two files, while changes are made


def source_of(target: Target, edits: Sequence[Edit] = ()) -> str:
    """Return the solution's text of a target and its private helpers after some edits, which must apply.

    Lines keep their numbers; a method becomes a plain function. The file of a given base class comes first. In another
    language it is the target's part alone.
    """
    return "\n".join(sources_of(target, edits).values())


def patched(target: Target, edits: Sequence[Edit], package: str, name: str) -> Any:
    """Return a package's target with edits in its text, in a module with everything else that the original has.

    Raise DoesNotApply like `source_of`, or if the result is not Python.
    """
    return rewritten(target, sources_of(target, edits), package, name)


def rewritten(target: Target, sources: Mapping[str, str | ast.Module], package: str, name: str) -> Any:
    """Return a package's target as texts define it, by file, in a module with everything else that the original has.

    That module belongs to the package, with `name` appended, so that replacements in the package reach it. What the
    package lacks of the solution's module comes from the solution. Raise DoesNotApply if a text is not Python.
    """
    try:
        with warnings.catch_warnings(action="ignore", category=SyntaxWarning):  # such as of a call of a number
            codes = [compile(text, str(SOLUTION / file), "exec", dont_inherit=True) for file, text in sources.items()]
    except SyntaxError as error:
        raise DoesNotApply(f"line {error.lineno} of {target} is not Python any more: {error.msg}") from error
    load_solution()
    module = ModuleType(f"{package}.{target.module}")
    for each in (*_given(target), target):
        original = importlib.import_module(f"{package}.{each.module}")
        vars(module).update(vars(importlib.import_module(f"{SOLUTION_NAME}.{each.module}")) | vars(original))
    sys.modules[f"{module.__name__}.{target.name}.{name}"] = module
    for code in codes:
        exec(code, vars(module))
    return vars(module)[target.name.rpartition(".")[2]]


def sources_of(target: Target, edits: Sequence[Edit] = ()) -> dict[str, str]:
    """Return that text by file."""
    texts = _unchanged(target) if target.is_python else {target.file: solved_part(target)}
    try:
        text = changed(SEAM.join(texts.values()), edits)
    except DoesNotApply as error:
        raise DoesNotApply(f"{error} in {target}, not once") from error
    return dict(zip(texts, text.split(SEAM), strict=True))


@cache
def _unchanged(target: Target) -> dict[str, str]:
    given = {each.file: _definitions(each.file, None) for each in _given(target)}
    return given | {target.file: _definitions(target.file, target)}


@cache
def _given(target: Target) -> tuple[Target, ...]:
    """Return the solution's classes that no task writes and from which a target derives, base first."""
    found, written = program(target, SOLUTION_NAME), {task.target for task in load_course().tasks()}
    above = reversed(found.__mro__[1:]) if isinstance(found, type) else ()
    ours = [each for each in above if each.__module__.startswith(f"{SOLUTION_NAME}.")]
    given = [Target(each.__module__.removeprefix(f"{SOLUTION_NAME}."), each.__name__) for each in ours]
    return tuple(each for each in given if each not in written)


def _definitions(file: str, target: Target | None) -> str:
    """Return the definitions of a file of the solution: all, or a target with its helpers."""
    text = Text((SOLUTION / file).read_text(encoding="utf-8"))
    known = dict(definitions(text.tree.body))
    lines = [""] * len(text.lines)
    for node in with_helpers(known, target.name) if target else text.tree.body:
        if isinstance(node, Definition) and (node.col_offset == 0 or (target and node is known[target.name])):
            first, last = decorated_line(node), text.last_line(node)
            lines[first - 1 : last] = textwrap.dedent("\n".join(text.lines[first - 1 : last])).split("\n")
    return "\n".join(lines)
