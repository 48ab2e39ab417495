"""The learner's functions as text: the source of one target, and the fingerprint of a task's code."""

import ast
import hashlib
from functools import lru_cache
from pathlib import Path

from .registry import Target, Task
from .stubs.text import decorated_line, definitions, end_line


def function_source(package: Path, target: Target) -> str | None:
    """The lines of a function, method or class in the package's file, decorators included, with `\\n` as line ends.

    None if the file is missing or not Python, or does not define it by `def` or `class`.
    """
    text = module_text(package, target.module)
    return None if text is None else _sources(text).get(target.name)


def fingerprint(task: Task, package: Path) -> str | None:
    """A hash of a task's code: it changes with the task's targets, and not with what else is in their files.

    A target that is written in another way than by `def` or `class`, or stands in a file that is not Python, is taken
    as its whole file. None if a file cannot be read.
    """
    parts = []
    for target in task.targets:
        text = module_text(package, target.module)
        if text is None:
            return None
        source = _sources(text).get(target.name)
        parts.append(f"{target}\n{source}" if source is not None else f"{target} in\n{text}")
    return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()


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
def _sources(text: str) -> dict[str, str]:
    """The source of every function, class and method of a module by its dotted name; none if it is not Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    lines = text.split("\n")
    # Of two definitions of a name the later one is in force, here as in Python.
    return {
        name: "\n".join(lines[decorated_line(node) - 1 : end_line(node)]) for name, node in definitions(tree.body)
    }
