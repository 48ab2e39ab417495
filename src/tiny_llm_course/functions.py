"""The learner's functions as text: the source of one target, and the fingerprint of a task's code."""

import ast
import copy
import hashlib
from collections.abc import Collection, Iterator
from functools import lru_cache
from pathlib import Path

from .parsing import parse
from .paths import ROOT
from .registry import Target, Task, load_course
from .stubs.text import Definition, decorated_line, definitions, docstring, end_line, indent


def function_source(package: Path, target: Target) -> str | None:
    """The lines of a function, method or class in the package's file, decorators included, with `\\n` as line ends.

    None if the file is missing or not Python, or does not define it by `def` or `class`.
    """
    text = module_text(package, target.module)
    node = _names(text).get(target.name) if text is not None else None
    return _source(text or "", node) if isinstance(node, Definition) else None


def definition_line(package: Path, target: Target) -> int | None:
    """The line on which the definition of a target begins that is in force; None if there is none, or no such file."""
    node = _names(module_text(package, target.module) or "").get(target.name)
    return node.lineno if node else None


def fingerprint(task: Task, package: Path) -> str | None:
    """A hash of a task's code: its targets, and what they use of their own files that is no other task's target.

    Whatever else changes in these files leaves it as it is, and so do comments, docstrings and layout: a sync that
    brings a better docstring takes nobody's tick. A target that its file does not define, or whose file is
    not Python, is taken as its whole file. None if a file cannot be read.
    """
    targets = frozenset(target for other in load_course().tasks() for target in other.targets)
    parts = []
    for target in task.targets:
        text = module_text(package, target.module)
        if text is None:
            return None
        others = {other.name for other in targets if other.module == target.module}
        parts += [str(target), *(_used(text, target.name, others) if target.name in _names(text) else [text])]
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


def holds_stub(task: Task, package: Path) -> bool:
    """Whether the file of a task still raises what its stub raises: nobody has finished it, whatever it waits for.

    A raise in a comment, or one that stands behind a return, was left over by somebody who has. The file need not be
    Python.
    """
    stub = f'raise NotImplementedError("{task.label}")'
    text = module_text(package, task.targets[0].module) or ""
    lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    return any(line.strip() == stub and not _follows_return(line, lines[:i]) for i, line in enumerate(lines))


def _follows_return(line: str, above: list[str]) -> bool:
    """Whether the statement above a line, in its own block, is a return; it may take several lines."""
    for other in reversed(above):
        if indent(other) < indent(line):
            break
        if indent(other) == indent(line) and other.strip()[0] not in ")]}":
            return other.strip().startswith("return")
    return False


def is_within(place: str, task: Task, package: Path) -> bool:
    """Whether a place in the package, `src/tiny_llm/basics.py:12`, is in one of the task's definitions."""
    for target in task.targets:
        file, _, number = place.rpartition(":")
        node = _names(module_text(package, target.module) or "").get(target.name)
        in_file = ROOT / file == module_path(package, target.module)
        if node and in_file and decorated_line(node) <= int(number) <= end_line(node):
            return True
    return False


def module_path(package: Path, module: str) -> Path:
    """The file of a module: "attention" is attention.py."""
    return package / f"{module.replace('.', '/')}.py"


def module_text(package: Path, module: str) -> str | None:
    """The text of a module's file with `\\n` as line ends; None if it cannot be read."""
    try:
        return module_path(package, module).read_text(encoding="utf-8", errors="surrogateescape").lstrip("\ufeff")
    except OSError:
        return None


@lru_cache(maxsize=32)
def _names(text: str) -> dict[str, ast.stmt]:
    """What a module defines at its top and in its classes, by dotted name; nothing if it is not Python.

    Of two definitions of a name the later one is in force, here as in Python.
    """
    try:
        body = parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    assigned = {
        name.id: node
        for node in body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for name in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(name, ast.Name)
    }
    return assigned | dict(definitions(body))


def _used(text: str, name: str, others: Collection[str]) -> Iterator[str]:
    """The code of a name, and of what it uses of its file, also by way of others: helpers and constants."""
    names, waiting, seen = _names(text), [name], {name}
    while waiting:
        current = waiting.pop()
        yield _code(text, names[current])
        scope = current.rpartition(".")[0]
        for node in ast.walk(names[current]):
            match node:
                case ast.Name(id=used):
                    pass
                case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attribute):
                    used = f"{scope}.{attribute}"
                case _:
                    continue
            if used in names and used not in seen and used not in others:
                seen.add(used)
                waiting.append(used)


def _source(text: str, node: ast.stmt) -> str:
    return "\n".join(text.split("\n")[decorated_line(node) - 1 : end_line(node)])


@lru_cache(maxsize=256)
def _code(text: str, node: ast.stmt) -> str:
    """The code of a statement of a module, without comments and docstrings, in one layout for all."""
    try:
        bare = copy.deepcopy(node)
        for part in ast.walk(bare):
            if isinstance(part, Definition) and docstring(part):
                del part.body[0]
        return ast.unparse(bare)
    except RecursionError:  # Python has read it, and its tools go deeper
        return _source(text, node)
