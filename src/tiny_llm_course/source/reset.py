"""Restores a stub in the learner's file; all other bytes stay."""

import ast
import re

from .parsing import parse_or_none
from .text import Definition, Text, decorated_line, definitions

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
BOM = "\ufeff"


def is_python(source: str) -> bool:
    """Return whether the text parses."""
    return parse_or_none(plain(source)) is not None


def reset_target(source: str, stub: str, name: str) -> tuple[str, str]:
    """Replace the learner's definition of `name`, a function, class or method, by the stub's.

    `source` is the learner's file with any line ends; `stub` the whole generated file. Return the text, and the name of
    what was missing and was restored (`name` or the class around it), or "".
    """
    stubs, theirs = _definitions(stub), _definitions(source)
    outer, _, _ = name.rpartition(".")
    if name not in theirs and outer and not isinstance(theirs.get(outer), ast.ClassDef):
        return reset_target(source, stub, outer)[0], outer
    lines = _lines_of(stub, stubs[name])
    if name in theirs:
        mine = _lines_of(source, theirs[name])
        lines = _indented(lines, like=mine[0])
        if lines == mine:  # perhaps with other line ends, which stay
            return source, ""
        return with_lines(source, *_span(source, theirs[name]), lines), ""
    gap = [""] * (1 if outer else 2)
    siblings = [n for n in stubs if n.rpartition(".")[0] == outer]
    place = siblings.index(name)
    above = [theirs[n] for n in siblings[:place] if n in theirs]
    below = [theirs[n] for n in siblings[place + 1 :] if n in theirs]
    if outer and (above or below):
        lines = _indented(lines, like=_lines_of(source, [*above, *below][0])[0])
    if below and not above:
        first = _text(source).first_line(below[0])
        return with_lines(source, first, first - 1, [*lines, *gap]), name
    if above:
        last = _span(source, above[-1])[1]
    else:
        last = _span(source, theirs[outer])[1] if outer else len(_lines(source.removeprefix(BOM)))
    return with_lines(source, last + 1, last, [*gap, *lines]), name


def _definitions(source: str) -> dict[str, Definition]:
    """Return definitions by dotted name; of two with one name the later one, with its methods alone."""
    found: dict[str, Definition] = {}
    for name, node in definitions(_text(source).tree.body):
        if name in found:
            found = {other: value for other, value in found.items() if not other.startswith(f"{name}.")}
        found[name] = node
    return found


def _span(source: str, node: Definition) -> tuple[int, int]:
    """Return a definition's first and last line, with its decorators and the comments that end its body."""
    return decorated_line(node), _text(source).last_line(node)


def _lines_of(source: str, node: Definition) -> list[str]:
    first, last = _span(source, node)
    return _text(source).lines[first - 1 : last]


def _indented(lines: list[str], like: str) -> list[str]:
    """Return the lines of a definition at the margin of another one's first line, which may be tabs."""
    old, new = (line[: len(line) - len(line.lstrip())] for line in (lines[0], like))
    return [new + line[len(old) :] if line.startswith(old) and line else line for line in lines]


def with_lines(source: str, first: int, last: int, new: list[str]) -> str:
    """Replace the lines from `first` to `last`; insert before `first` if `last` is less."""
    bom = BOM if source.startswith(BOM) else ""
    lines = _lines(source.removeprefix(BOM))
    ends = [line[len(line.rstrip("\r\n")) :] for line in lines if line.endswith(("\r", "\n"))]
    end = max(sorted(set(ends)), key=ends.count) if ends else "\n"
    body = [line + end for line in new]
    above, replaced, below = lines[: first - 1], lines[first - 1 : last], lines[last:]
    if above and not above[-1].endswith(("\r", "\n")):
        above[-1] += end
    if replaced and not replaced[-1].endswith(("\r", "\n")):  # the file's last line, and it had no end
        body[-1] = new[-1]
    return bom + "".join([*above, *body, *below])


def _lines(source: str) -> list[str]:
    """Return the lines with their ends, as Python counts them: form feeds and Unicode separators end none."""
    return [line for line in LINE.findall(source) if line]


def _text(source: str) -> Text:
    return Text(plain(source))


def plain(source: str) -> str:
    """Return the text with newlines as line ends."""
    return source.removeprefix(BOM).replace("\r\n", "\n").replace("\r", "\n")
