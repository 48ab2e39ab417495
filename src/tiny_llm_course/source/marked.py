"""Languages that are not parsed: the learner's parts stand between `// --- your code: NAME` and `// --- end`.

The rest of such a file is given. An unwritten part holds one statement, which names its task.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from posixpath import dirname, join, normpath

from ..course.entities import Target, Task
from .language import ITS_END, YOUR_CODE, MergeLines, Reach, Spans
from .merge.functions import Kept, Merged
from .reset import plain, with_lines

Lines = tuple[str, ...]

GIVEN = "// --- given"  # marks a file without a task's part, all of which is given
BEGINS = re.compile(rf"\s*// {YOUR_CODE}: (\S+)\s*")
ENDS = re.compile(rf"\s*// {ITS_END}\s*")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"\n]+)"', re.MULTILINE)
STRING = r'"(?:\\.|[^"\\\n])*"'
TOKEN = re.compile(
    r"(?P<skipped>//[^\n]*|/\*.*?\*/|\s+)"
    rf"|{STRING}|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'|\w+"
    r"|<<=|>>=|\+\+|--|&&|\|\||<<|>>|->|::|[-+*/%&|^<>=!]=|.",
    re.DOTALL,
)
RETURNS = re.compile(r"(?:^|[;{}] )return\b[^;{}]*; $")  # at the end of code


@dataclass(frozen=True)
class Marked(Spans):
    """A language with `//` comments. `unwritten` stands for an unwritten part, with {} for the quoted task label."""

    unwritten: str
    fence: str

    def stub(self, text: str, tasks: Mapping[str, Task], solved: Collection[str], needed: Collection[Target]) -> str:
        """Replace each part by one statement, such as `throw std::runtime_error("2.4.1 Axpy");`."""
        lines, parts = text.split("\n"), _parts(text)
        if missing := tasks.keys() - parts:
            name = min(missing)
            raise ValueError(f"there is no // {YOUR_CODE}: {name}, which is the target of {tasks[name].id}")
        if foreign := parts.keys() - tasks:
            raise ValueError(f"{min(foreign)} is marked as the learner's, and is the target of no task")
        if text.count(YOUR_CODE) > len(parts):
            raise ValueError(f"a mark is not written as // {YOUR_CODE}: NAME")
        if not tasks and GIVEN not in map(str.strip, lines):
            raise ValueError(f"no task writes in it: if all of it is given, a line {GIVEN} says so")
        for name, (first, last) in sorted(parts.items(), key=lambda part: part[1], reverse=True):
            if name not in solved:
                margin = lines[first - 2][: -len(lines[first - 2].lstrip())]
                lines[first - 1 : last] = [margin + self._statement(tasks[name])]
        return "\n".join(lines)

    def holds_stub(self, text: str, task: Task) -> bool:
        """Return whether the statement is left, outside comments and, if it runs, not after a return."""
        region = self.region(text, task.target.name)
        before, found, _ = _code(text if region is None else region).partition(_code(self._statement(task)))
        return bool(found) and (self.unwritten.startswith("#") or not RETURNS.search(before))

    def reach(self, text: str, file: str, name: str | None, targets: Mapping[str, Collection[str]]) -> Reach:
        """Return the target's part and the given code, and the files included by a name in quotes."""
        try:
            given, parts = _taken_apart(text)
        except ValueError:
            given, parts = text, {}
        if name not in (None, *parts):  # its marks are gone
            given = text
        files = [normpath(join(dirname(file), included)) for included in INCLUDE.findall(text)]
        return Reach([_code(given), *(_code("\n".join(parts[one])) for one in parts if one == name)], files)

    def span(self, text: str, name: str) -> tuple[int, int] | None:
        """Return the lines between the marks."""
        try:
            return _parts(text).get(name)
        except ValueError:
            return None

    def line(self, text: str, name: str) -> int | None:
        """Return the line after the first mark."""
        span = self.span(text, name)
        return span[0] if span else None

    def fault(self, text: str) -> str:
        """Return "": such a file is given to its compiler as it is."""
        return ""

    def merge(self, base: str | None, mine: str, new: str, merge_lines: MergeLines) -> Merged:
        """Take upstream's given code, merged by line where the learner changed it; what is written stays."""
        both = Merged(mine, kept=[Kept("the whole file", "you and upstream both changed it")])
        try:
            (was, _), (has, own), (comes, fresh) = map(_taken_apart, (base or "", mine, new))
            bare = {name: re.sub(STRING, '""', "\n".join(lines).strip()) for name, lines in own.items()}
            written = {name: lines for name, lines in own.items() if bare[name] != self.unwritten.format('""')}
            given = comes if has in (was, comes) else has if was == comes else merge_lines(was, has, comes)
            there = own if given is None else _parts(given)
        except ValueError:  # a mark is gone
            text = merge_lines(base or "", mine, new)
            return both if text is None else Merged(text)
        if given is None:
            return both
        if lost := written.keys() - there:
            return Merged(mine, kept=[Kept(min(lost), "upstream removed it; you wrote in it")])
        lines = given.split("\n")
        for name, (first, last) in reversed(_parts(given).items()):
            lines[first - 1 : last] = {**own, **fresh, **written}[name]
        merged = Merged("\n".join(lines))
        merged.added = [name for name in there if name not in own]
        merged.removed = [name for name in own if name not in there]
        merged.taken = [name for name in there if name in own and (given != has or name not in written)]
        return merged

    def reset(self, text: str, stub: str, name: str) -> tuple[str, str]:
        """Restore the part between the marks."""
        span, lines = self.span(plain(text), name), (self.region(stub, name) or "").split("\n")
        if span is None:
            raise ValueError(f"has lost a mark, // {YOUR_CODE}: {name} or // {ITS_END}")
        if self.region(plain(text), name) == "\n".join(lines):
            return text, ""
        return with_lines(text, *span, lines), ""

    def listing(self, text: str, name: str) -> str:
        """Return the given code above the part, back to the last unindented line after a blank one."""
        span = self.span(text, name)
        if span is None:
            raise ValueError(f"there is no {name}")
        above = text.split("\n")[: span[0] - 2]
        starts = [i for i, line in enumerate(above) if line[:1].strip() and not (i and above[i - 1].strip())]
        return "".join(f"{line}\n" for line in above[starts[-1] if starts else 0 :])

    def signatures(self, text: str, name: str) -> Mapping[str, str]:
        """Return the listing."""
        return {name: self.listing(text, name)} if self.span(text, name) else {}

    def _statement(self, task: Task) -> str:
        return self.unwritten.format(json.dumps(task.label, ensure_ascii=False))


def _parts(text: str) -> dict[str, tuple[int, int]]:
    """Return the first and last line of each learner's part; raise ValueError if the marks do not match."""
    found: dict[str, tuple[int, int]] = {}
    name, first = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        begins, ends = BEGINS.fullmatch(line), ENDS.fullmatch(line)
        if begins and (name or begins[1] in found):
            raise ValueError(f"line {number}: {name or begins[1]} {'has no end' if name else 'begins twice'}")
        if ends and not name:
            raise ValueError(f"line {number}: '// {ITS_END}' where nothing has begun")
        if begins:
            name, first = begins[1], number + 1
        elif ends:
            found[name] = first, number - 1
            name = ""
    if name:
        raise ValueError(f"{name} has no end")
    return found


def _taken_apart(text: str) -> tuple[str, dict[str, Lines]]:
    """Return the given code with its marks, and the lines of each part."""
    lines = text.split("\n")
    parts = {name: tuple(lines[first - 1 : last]) for name, (first, last) in _parts(text).items()}
    for first, last in reversed(_parts(text).values()):
        del lines[first - 1 : last]
    return "\n".join(lines), parts


def _code(text: str) -> str:
    """Return a text without comments and layout."""
    return " ".join(token[0] for token in TOKEN.finditer(text) if token["skipped"] is None)
