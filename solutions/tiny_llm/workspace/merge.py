"""Merge what several agents changed, each in its own copy of a workspace."""

import difflib
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

Files = Mapping[str, bytes]  # contents by path


@dataclass(frozen=True)
class Conflict:
    """A file that copies changed in ways that do not fit together."""

    path: str
    copies: tuple[str, ...]  # the names of these copies, in their order
    line: int  # of the base, from 1, where the first conflict begins; 0 if the file was not compared by lines


@dataclass(frozen=True)
class Merge:
    """The result of a merge."""

    changed: dict[str, bytes | None] = field(default_factory=dict)  # new contents by path, sorted; None: deleted
    conflicts: list[Conflict] = field(default_factory=list)  # sorted by path


@dataclass(frozen=True, order=True)
class Hunk:
    """Lines of the base that a copy replaced: those from `first` to `last` - 1, from 0. Insertions replace none."""

    first: int
    last: int
    lines: tuple[bytes, ...]


def merge_copies(base: Files, copies: Mapping[str, Files]) -> Merge:
    r"""Merge the changes of copies of a workspace, file by file and line by line.

    A file that no copy changed is left out of the result. If all copies that changed a file have the same content, or
    have all deleted it, that is the result; so it is if only one copy changed it. Otherwise:

    - The file is a conflict of all copies that changed it, with line 0, if the base has no such file, if one of them
      deleted it, or if one of the contents, the base's included, has a zero byte.
    - Else its lines are compared. A line ends after each b"\n", and the last one may have none. The hunks of a copy are
      the opcodes of `difflib.SequenceMatcher(None, base lines, copy's lines, autojunk=False)` that are not "equal".
      Hunks of two copies that are equal are one. Two others conflict if they overlap or touch: if neither ends before
      the other one begins, with an unchanged line between them. If no two hunks conflict, all of them are applied.
    - If some do, nothing of this file is merged. The conflict names each copy that has a conflicting hunk, and the
      first line of the first of these hunks.

    Args:
        base: the files before.
        copies: the files of each copy afterwards, by the copy's name.
    """
    merge = Merge()
    for path in sorted(set(base).union(*copies.values())):
        before = base.get(path)
        after = {name: files.get(path) for name, files in copies.items() if files.get(path) != before}
        contents = set(after.values())
        if len(contents) == 1:
            merge.changed[path] = contents.pop()
        elif contents:
            texts = {name: content for name, content in after.items() if content is not None and b"\0" not in content}
            if before is None or b"\0" in before or len(texts) < len(after):
                merge.conflicts.append(Conflict(path, tuple(after), 0))
            else:
                _merge_lines(merge, path, before, texts)
    return merge


def _merge_lines(merge: Merge, path: str, before: bytes, after: Files) -> None:
    """Add a file that several copies changed in different ways."""
    base = _lines(before)
    hunks: dict[Hunk, list[str]] = {}
    for name, content in after.items():
        for hunk in _hunks(base, _lines(content)):
            hunks.setdefault(hunk, []).append(name)
    clashing = set[Hunk]()
    for one, other in itertools.combinations(sorted(hunks), 2):
        if one.first <= other.last and other.first <= one.last:
            clashing |= {one, other}
    if clashing:
        names = {name for hunk in clashing for name in hunks[hunk]}
        merge.conflicts.append(Conflict(path, tuple(n for n in after if n in names), min(clashing).first + 1))
        return
    for hunk in sorted(hunks, reverse=True):
        base[hunk.first : hunk.last] = hunk.lines
    merge.changed[path] = b"".join(base)


def _lines(content: bytes) -> list[bytes]:
    return re.findall(rb"[^\n]*\n|[^\n]+", content)


def _hunks(base: list[bytes], lines: list[bytes]) -> list[Hunk]:
    codes = difflib.SequenceMatcher(None, base, lines, autojunk=False).get_opcodes()
    return [Hunk(first, last, tuple(lines[a:b])) for code, first, last, a, b in codes if code != "equal"]
