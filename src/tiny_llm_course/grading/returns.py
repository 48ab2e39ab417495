"""Ask for a forgotten `return` where an error is about a None, or a line of a failing program has no effect."""

import ast
import dataclasses
import dis
import inspect
import re
import traceback
from pathlib import Path
from types import FunctionType

from ..course.entities import Target
from ..course.findings import Finding, shortened
from ..source.parsing import parse_or_none

QUESTION = ": is a `return` missing?"
SAID = re.compile(r"\b(?:gave|got|returned|returns|is|are) None(?:Type)?, expected|, got None$")
NONE = re.compile("LOAD_CONST None RETURN_VALUE|RETURN_CONST None")

EFFECTS = ast.Call | ast.Await | ast.Yield | ast.YieldFrom
GOT = re.compile("got +None")
DUE = re.compile(r"expected +an? [A-Z]\w+$")
JOINS = re.compile(r"(concatenate|stack)\(\): .*Invoked with types: (list|tuple)", re.DOTALL)
PURE = re.compile(  # a call whose result is all it gives
    r"mx\.(?!(random\.seed|(async_)?eval|synchronize|broadcast_shapes|set_\w+|clear_\w+|save\w*|(dis|en)able\w+)\()"
    r"|(dict|list|tuple|sorted|len|sum|min|max|int|float|str|bool)\("
)


def asked(finding: Finding) -> Finding:
    """Return a finding, with the question if it says that a result is None."""
    if SAID.search(finding.headline):
        return dataclasses.replace(finding, headline=f"{finding.headline}{QUESTION}")
    if ", at `" in finding.headline or any(DUE.match(line) for line in finding.lines):  # one field; an exception
        return finding
    lines = [f"{line}{QUESTION}" if GOT.fullmatch(line) else line for line in finding.lines]
    return dataclasses.replace(finding, lines=tuple(lines))


def nothing(error: BaseException) -> str:
    """Return the headline for an error of a check that was given None, or a list with something that is no array."""
    if isinstance(error, TypeError | AttributeError) and "NoneType" in str(error):
        return f"gave None where the check needs a value{QUESTION}"
    joins = isinstance(error, TypeError) and JOINS.match(str(error))
    return f"gave no array where the check joins arrays{QUESTION}" if joins else ""


def missing(error: BaseException, package: Path) -> tuple[str, ...]:
    """Return a line on the package's functions, known in the traceback, that can return None but say otherwise."""
    if not isinstance(error, TypeError | AttributeError) or "NoneType" not in str(error):
        return ()
    held = [each for frame, _ in traceback.walk_tb(error.__traceback__) for each in frame.f_globals.values()]
    parts = [part for each in held if isinstance(each, type) for part in vars(each).values()]
    unwrapped = map(inspect.unwrap, [*held, *(getattr(part, "fget", part) for part in parts)])
    names = " and ".join(dict.fromkeys(f"`{f.__qualname__}`" for f in unwrapped if _lacks_return(f, package)))
    return (f"{names} can return None{QUESTION}",) if names else ()


def _lacks_return(function: object, package: Path) -> bool:
    if not isinstance(function, FunctionType) or "None" in str(function.__annotations__.get("return")):
        return False
    steps = [f"{step.opname} {step.argrepr}".strip() for step in dis.get_instructions(function)]
    mine = Path(function.__code__.co_filename).is_relative_to(package) and not inspect.isgeneratorfunction(function)
    return mine and len(steps) > 4 and bool(NONE.search(" ".join(steps)))  # a protocol's method has no steps


def idle(finding: Finding, target: Target, package: Path) -> Finding:
    """Return a finding, with the question for a line of the target that computes something and does not use it.

    If the target returns None on purpose, take the question back.
    """
    file = package / target.file
    if not target.is_python or not file.is_file():
        return finding
    body = tree.body if (tree := parse_or_none(file.read_text(encoding="utf-8", errors="replace"))) else []
    names = [(getattr(node, "name", ""), node) for node in body]
    mine = [node for name, node in names if name == target.name.partition(".")[0] or name.startswith("_")]
    if QUESTION in finding.text():
        if not any(_returns_none(node) for part in mine for node in ast.walk(part)):
            return finding
        lines = tuple(line.removesuffix(QUESTION) for line in finding.lines)
        return dataclasses.replace(finding, headline=finding.headline.removesuffix(QUESTION), lines=lines)
    for node in (node for part in mine for node in ast.walk(part) if isinstance(node, ast.Expr)):
        words = ast.unparse(node.value)
        if words[0] not in "'\"." and (not isinstance(node.value, EFFECTS) or PURE.match(words)):
            line = f"line {node.lineno}, `{shortened(words)}`, has no effect{QUESTION}"
            return dataclasses.replace(finding, lines=(*finding.lines, line))
    return finding


def _returns_none(node: ast.AST) -> bool:
    """Return whether this is `return None`, or a function whose result may be None by its annotation."""
    if isinstance(node, ast.FunctionDef) and node.returns:
        return bool(re.search(r"\| None\b|\bNone \||Optional\[", ast.unparse(node.returns)))
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Constant) and node.value.value is None
