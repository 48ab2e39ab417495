"""What a task's files import, and what they may: MLX, NumPy, the standard library, and what the solution imports."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from ..course.entities import Task
from .code import Code
from .parsing import parse_or_none
from .reach import PACKAGE, import_of

GIVEN = frozenset(["mlx", "numpy", PACKAGE])
# The harness, the tests and the solution: their only use would be to copy answers.
ANSWERS = frozenset(["solutions", "tests", "tiny_llm_course", "tiny_llm_solution"])
COPIED = "where the answers are: write it yourself"
INCLUDED = re.compile(r'^\s*#\s*include\s*["<]([^">\n]+)[">]', re.MULTILINE)
NOT_RUN = ("TYPE_CHECKING", "__name__")


class Imports:
    """The learner's package and the solution's; files are read when first needed."""

    def __init__(self, package: Path, solution: Path) -> None:
        self._package, self._solution = package, solution

    def fault(self, task: Task, seen: dict[str, list[str]]) -> str:
        """Return a line on the first forbidden import in the files that a task reaches, or "".

        A task's own code counts in full, other code as far as importing its file runs it; `seen` was imported at run
        time.
        """
        for file, text, pieces in Code(self._package).reached(task):
            if (self._package / file).resolve().is_relative_to(self._solution.parent):
                return f"src/{PACKAGE}/{file} is a link to {self._solution.parent.name}/, {COPIED}"
            if path := next(self._outside(file, text), ""):
                return f"src/{PACKAGE}/{file} includes {path}, which is outside of src/{PACKAGE}"
            own = [node for piece in pieces for node in _run(_body(piece))]
            for name in [*_names(own), *_names(_run(_body(text), functions=False)), *seen.get(file, [])]:
                if not self.allows(name, file):
                    return self.words(name, file, task)
        return ""

    def allows(self, name: str, file: str) -> bool:
        """Return whether a file of the learner's package may import a module."""
        top = name.partition(".")[0]
        return top in GIVEN or top in sys.stdlib_module_names or top in self._solutions(file)

    def _outside(self, file: str, text: str) -> Iterator[str]:
        """Yield the paths outside the package that a file in another language includes."""
        for path in INCLUDED.findall(text) if not file.endswith(".py") else ():
            place = (self._package / file).parent / path
            if (path.startswith(("/", ".")) or place.exists()) and not place.resolve().is_relative_to(self._package):
                yield path

    def words(self, name: str, file: str, task: Task) -> str:
        """Say why a file may not import a module."""
        top = name.partition(".")[0]
        start = f"src/{PACKAGE}/{file} imports {top}"
        if top in ANSWERS:
            return f"{start}, {COPIED}"
        beside = self._package.parent / top
        if beside.is_dir() or beside.with_suffix(".py").is_file():
            return f"{start} from outside src/{PACKAGE}: put it in there, and import it from {PACKAGE}"
        stands = ["mlx", "numpy", *sorted(self._solutions(file))]
        return f"{start}, but week {task.week} stands on {', '.join(stands)} and the standard library"

    def _solutions(self, file: str) -> frozenset[str]:
        """Return what the solution's files import in the same folder or in one around it."""
        folders = PurePosixPath(file).parents
        files = [path for folder in folders for path in sorted((self._solution / folder).glob("*.py"))]
        return frozenset(name for path in files for name in _third_parties(path))


@cache
def _third_parties(file: Path) -> frozenset[str]:
    tops = {name.partition(".")[0] for name in _names(_run(_body(file.read_text(encoding="utf-8"))))}
    return frozenset(tops - GIVEN - ANSWERS - sys.stdlib_module_names)


def _body(text: str) -> list[ast.stmt]:
    tree = parse_or_none(text.encode(errors="surrogateescape"))
    return tree.body if tree else []  # a file that is not Python gets its verdict elsewhere


def _run(body: Iterable[ast.AST], functions: bool = True) -> Iterator[ast.AST]:
    """Yield the nodes of some code, except what only a type checker or `python FILE` runs, and perhaps functions."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not functions:
            continue
        if isinstance(node, ast.If) and any(word in ast.unparse(node.test) for word in NOT_RUN):
            yield from _run(node.orelse, functions)
            continue
        yield node
        yield from _run(ast.iter_child_nodes(node), functions)


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the modules that some code imports absolutely."""
    for node in nodes:
        match import_of(node):
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
