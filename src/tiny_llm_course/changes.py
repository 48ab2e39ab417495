"""Which tasks a change of the learner's files concerns: each task has a fingerprint of the code that it runs."""

import ast
import dataclasses
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from .parsing import parse
from .paths import ROOT
from .registry import Task, load_course
from .stubs.text import decorated_line, definitions, end_line


@dataclasses.dataclass(frozen=True)
class Module:
    """One file of the learner's, taken apart."""

    targets: dict[str, str]  # the source text of each target that is there
    rest: str  # all other code: comments and blank lines do not count
    uses: frozenset[str] = frozenset()  # the modules that it imports more than targets from
    problem: str = ""  # one line on why the file cannot be read as Python


class Code:
    """The learner's package as it is now."""

    def __init__(self, package: Path) -> None:
        targets: dict[str, set[str]] = {}
        for task in load_course().tasks():
            for target in task.targets:
                targets.setdefault(target.module, set()).add(target.name)
        self._package = package
        self._modules = {}
        for file in sorted(package.rglob("*.py")):
            name = ".".join(file.relative_to(package).with_suffix("").parts)
            if all(part.isidentifier() for part in name.split(".")):  # and not an editor's .#attention.py
                self._modules[name] = _read(file, name, targets)

    def fingerprint(self, task: Task) -> str:
        """A digest of what a task runs: its targets, those of the tasks it needs, and what else is in their files."""
        needed = self._needed(task)
        parts = [self._module(t.module).targets.get(t.name, "") for each in needed for t in each.targets]
        parts += [self._module(name).rest for name in self._reached(needed)]
        return hashlib.sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()

    def own(self, task: Task) -> str:
        """What of that the learner has written for this task: its targets, and what else is in their files."""
        modules = sorted({target.module for target in task.targets})
        parts = [self._module(target.module).targets.get(target.name, "") for target in task.targets]
        return "\0".join([*parts, *(self._module(name).rest for name in modules)])

    def problems(self, tasks: Iterable[Task]) -> list[str]:
        """A line on each file of these tasks that is missing or not Python."""
        reached = {name for task in tasks for name in self._reached(self._needed(task))}
        return [self._module(name).problem for name in sorted(reached) if self._module(name).problem]

    def _needed(self, task: Task) -> list[Task]:
        return [task, *map(load_course().task, load_course().needs(task.id))]

    def _reached(self, tasks: Iterable[Task]) -> list[str]:
        """The modules whose other code counts."""
        waiting = {target.module for task in tasks for target in task.targets} | {"__init__"} & self._modules.keys()
        found: set[str] = set()
        while waiting:
            found |= waiting
            waiting = {use for name in waiting for use in self._module(name).uses & self._modules.keys()} - found
        return sorted(found)

    def _module(self, name: str) -> Module:
        path = (self._package / Path(*name.split("."))).with_suffix(".py")
        return self._modules.get(name) or Module({}, "", problem=f"{_shown(path)} is not there")


def _read(file: Path, name: str, targets: dict[str, set[str]]) -> Module:
    path = _shown(file)
    try:
        data = file.read_bytes()
    except OSError as error:
        return Module({}, "", problem=f"{path} cannot be read: {error.strerror}")
    try:
        tree = parse(data)
    except SyntaxError as error:
        line = f":{error.lineno}" * (error.lineno is not None)
        return Module({}, repr(data), problem=f"{path}{line} is not Python: {error.msg}")
    except (ValueError, RecursionError, MemoryError) as error:
        return Module({}, repr(data), problem=f"{path} is not Python: {error}")
    lines = re.split(r"\r\n|\r|\n", data.decode(errors="surrogateescape"))
    # Of two definitions of a name the later one is in force, here as in Python.
    found = {target: node for target, node in definitions(tree.body) if target in targets.get(name, ())}
    spans = {t: "\n".join(lines[decorated_line(node) - 1 : end_line(node)]) for t, node in sorted(found.items())}
    uses = frozenset(_uses(tree, name, targets))
    if ast.get_docstring(tree, clean=False) is not None:
        del tree.body[0]
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [part for part in body if part not in found.values()]  # type: ignore[attr-defined]
    return Module(spans, ast.dump(tree), uses)


def _shown(file: Path) -> str:
    return (file.relative_to(ROOT) if file.is_relative_to(ROOT) else file).as_posix()


def _uses(tree: ast.Module, name: str, targets: dict[str, set[str]]) -> Iterator[str]:
    """The modules of the package from which this one imports itself or anything that is no target."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name.removeprefix("tiny_llm.") for a in node.names if a.name.startswith("tiny_llm."))
        elif isinstance(node, ast.ImportFrom):
            above = name.split(".")[: -node.level] if node.level else []
            parts = above + (node.module.split(".") if node.module else [])
            if not node.level:
                if parts[0] != "tiny_llm":
                    continue
                parts = parts[1:]
            source = ".".join(parts)
            known = {target.split(".")[0] for target in targets.get(source, ())}
            for alias in node.names:
                if alias.name not in known:
                    yield source or alias.name
                    yield f"{source}.{alias.name}" if source else alias.name
