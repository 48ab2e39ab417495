"""The solution's program with changes in its text: how a known mistake in Python becomes something to run."""

import importlib
import sys
import textwrap
from collections.abc import Sequence
from functools import cache
from types import ModuleType
from typing import Any

from ..course.nouns import Target
from ..course.registry import load_course
from ..paths import SOLUTION
from ..source.changed import DoesNotApply, Edit, changed
from ..source.names import with_helpers
from ..source.text import Definition, Text, decorated_line, definitions
from .packages import SOLUTION_NAME, load_solution, program
from .parts import solved_part

SEAM = "\n\f\n"  # between the texts of two files, while changes are made


def source_of(target: Target, edits: Sequence[Edit] = ()) -> str:
    """The solution's text of a target and of its module's private helpers that it uses, after some changes.

    Everything stands on the line that it has in the file; a method is at the margin, as a plain function. If a class
    derives from one that no task writes, what that one's file defines comes first. Of another language it is the
    target's part alone.

    Raises:
        DoesNotApply: some old words do not stand there exactly once.
    """
    return "\n".join(_sources(target, edits).values())


def patched(target: Target, edits: Sequence[Edit], package: str, name: str) -> Any:
    """The target of a package with changes in its text, among everything else that its module has.

    Its module is one of the package, with this name at the end, so that what is put in a place of the package reaches
    it too. What the package lacks of the solution's module, an import or a helper of another name, is the solution's.

    Raises:
        DoesNotApply: as `source_of`, or what comes out is not Python.
    """
    sources = _sources(target, edits)
    try:
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


def _sources(target: Target, edits: Sequence[Edit]) -> dict[str, str]:
    """What `source_of` joins, by file."""
    texts = _unchanged(target) if target.is_python else {target.file: solved_part(target)}
    try:
        text = changed(SEAM.join(texts.values()), edits)
    except DoesNotApply as error:
        raise DoesNotApply(f"{error} in {target}, not once") from error
    return dict(zip(texts, text.split(SEAM), strict=True))


@cache
def _unchanged(target: Target) -> dict[str, str]:
    return {
        each.file: _definitions(each.file, target if each is target else None) for each in (*_given(target), target)
    }


@cache
def _given(target: Target) -> tuple[Target, ...]:
    """The solution's classes that no task writes and from which a target derives, the first one first."""
    found, written = program(target, SOLUTION_NAME), {task.target for task in load_course().tasks()}
    above = reversed(found.__mro__[1:]) if isinstance(found, type) else ()
    ours = [each for each in above if each.__module__.startswith(f"{SOLUTION_NAME}.")]
    given = [Target(each.__module__.removeprefix(f"{SOLUTION_NAME}."), each.__name__) for each in ours]
    return tuple(each for each in given if each not in written)


def _definitions(file: str, target: Target | None) -> str:
    """What a file of the solution defines: all, or a target with its helpers."""
    text = Text((SOLUTION / file).read_text(encoding="utf-8"))
    known = dict(definitions(text.tree.body))
    lines = [""] * len(text.lines)
    for node in with_helpers(known, target.name) if target else text.tree.body:
        if isinstance(node, Definition) and (node.col_offset == 0 or (target and node is known[target.name])):
            first, last = decorated_line(node), text.last_line(node)
            lines[first - 1 : last] = textwrap.dedent("\n".join(text.lines[first - 1 : last])).split("\n")
    return "\n".join(lines)
