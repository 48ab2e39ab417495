"""Files for task 7.5.4, and the merge of them by a formula that marks lines and the gaps between them."""

import difflib
from collections.abc import Mapping
from typing import Any

Files = Mapping[str, bytes]
TEN = b"".join(b"line %d\n" % i for i in range(10))


def with_lines(changes: Mapping[int, bytes | None], base: bytes = TEN) -> bytes:
    """Return the base with some of its lines, from 0, replaced; None deletes one."""
    lines = base.splitlines(keepends=True)
    for number, line in changes.items():
        lines[number] = b"" if line is None else line
    return b"".join(lines)


A3, B3, A8 = with_lines({3: b"A\n"}), with_lines({3: b"B\n"}), with_lines({8: b"A\n"})
SCENES: dict[str, tuple[Files, dict[str, Files]]] = {
    "nothing changed": ({"f": TEN}, {"a": {"f": TEN}, "b": {"f": TEN}}),
    "no copies": ({"f": TEN}, {}),
    "one copy changed a line": ({"f": TEN, "g": b"x"}, {"a": {"f": A3, "g": b"x"}, "b": {"f": TEN, "g": b"x"}}),
    "different files": ({"f": TEN, "g": TEN}, {"a": {"f": A3, "g": TEN}, "b": {"f": TEN, "g": B3}}),
    "different lines": ({"f": TEN}, {"a": {"f": A3}, "b": {"f": A8}}),
    "the same line": ({"f": TEN}, {"a": {"f": A3}, "b": {"f": B3}}),
    "the same change": ({"f": TEN}, {"a": {"f": A3}, "b": {"f": A3}}),
    "the same change and another one": ({"f": TEN}, {"a": {"f": A3}, "b": {"f": with_lines({3: b"A\n", 8: b"B\n"})}}),
    "the same two lines for one and another change": (
        {"f": TEN},
        {"a": {"f": with_lines({3: b"A\nC\n"})}, "b": {"f": with_lines({3: b"A\nC\n", 8: b"B\n"})}},
    ),
    "lines that touch": ({"f": TEN}, {"a": {"f": A3}, "b": {"f": with_lines({4: b"B\n"})}}),
    "a line between": ({"f": TEN}, {"a": {"f": A3}, "b": {"f": with_lines({5: b"B\n"})}}),
    "insertions in different places": (
        {"f": TEN},
        {"a": {"f": with_lines({1: b"new\nline 1\n"})}, "b": {"f": with_lines({6: b"line 6\nnew\nnew\n"})}},
    ),
    "insertions in one place": (
        {"f": TEN},
        {"a": {"f": with_lines({1: b"A\nline 1\n"})}, "b": {"f": with_lines({1: b"B\nline 1\n"})}},
    ),
    "an insertion before a changed line": (
        {"f": TEN},
        {"a": {"f": with_lines({3: b"A\nline 3\n"})}, "b": {"f": B3}},
    ),
    "an insertion after a changed line": (
        {"f": TEN},
        {"a": {"f": with_lines({3: b"line 3\nA\n"})}, "b": {"f": B3}},
    ),
    "a deletion and an edit elsewhere": ({"f": TEN}, {"a": {"f": with_lines({1: None, 2: None})}, "b": {"f": A8}}),
    "a deletion and an edit of it": ({"f": TEN}, {"a": {"f": with_lines({2: None, 3: None})}, "b": {"f": B3}}),
    "both ends": (
        {"f": TEN},
        {"a": {"f": b"first\n" + TEN}, "b": {"f": TEN + b"last\n"}},
    ),
    "everything and a line": ({"f": TEN}, {"a": {"f": b"all\n"}, "b": {"f": A8}}),
    "a long change and two lines of it": (
        {"f": TEN},
        {
            "a": {"f": with_lines({i: b"A%d\n" % i for i in range(1, 8)})},
            "b": {"f": with_lines({2: b"B\n"})},
            "c": {"f": with_lines({6: b"C\n"})},
        },
    ),
    "two conflicts": (
        {"f": TEN},
        {"a": {"f": with_lines({2: b"A\n", 8: b"A\n"})}, "b": {"f": with_lines({2: b"B\n", 8: b"B\n"})}},
    ),
    "a conflict and a change that fits": (
        {"f": TEN, "g": TEN},
        {"a": {"f": with_lines({1: b"A\n", 8: b"A\n"}), "g": A3}, "b": {"f": with_lines({8: b"B\n"}), "g": A8}},
    ),
    "three copies": (
        {"f": TEN},
        {"a": {"f": with_lines({0: b"A\n"})}, "b": {"f": with_lines({4: b"B\n"})}, "c": {"f": with_lines({9: b"C\n"})}},
    ),
    "three copies, two in conflict": ({"f": TEN}, {"c": {"f": A8}, "b": {"f": B3}, "a": {"f": A3}}),
    "no line break at the end": (
        {"f": b"a\nb\nc\nd"},
        {"a": {"f": b"A\nb\nc\nd"}, "b": {"f": b"a\nb\nc\nd\n"}},
    ),
    "carriage returns": ({"f": b"a\r\nb\r\nc\r\n"}, {"a": {"f": b"A\r\nb\r\nc\r\n"}, "b": {"f": b"a\r\nb\r\nC\r\n"}}),
    "a single line of carriage returns": (
        {"f": b"a\rb\rc\n"},
        {"a": {"f": b"A\rb\rc\n"}, "b": {"f": b"a\rb\rC\n"}},
    ),
    "other separators": (
        {"f": "a\u2028b\nx\nc\x0bd\n".encode()},
        {"a": {"f": "a\u2028B\nx\nc\x0bd\n".encode()}, "b": {"f": "a\u2028b\nx\nC\x0bd\n".encode()}},
    ),
    "no UTF-8": ({"f": b"\xff\n1\n2\n"}, {"a": {"f": b"\xfe\n1\n2\n"}, "b": {"f": b"\xff\n1\n3\n"}}),
    "a repeated line": (
        {"f": b"x\n" * 300},
        {"a": {"f": b"A\n" + b"x\n" * 300}, "b": {"f": b"x\n" * 299 + b"B\n"}},
    ),
    "a new file": ({}, {"a": {"f": b"new\n"}, "b": {}}),
    "the same new file": ({}, {"a": {"f": b"new\n"}, "b": {"f": b"new\n"}}),
    "two new files of one name": ({}, {"a": {"f": b"new\n"}, "b": {"f": b"other\n"}}),
    "a new empty file": ({}, {"a": {"f": b""}, "b": {}}),
    "one deletes": ({"f": TEN}, {"a": {}, "b": {"f": TEN}}),
    "both delete": ({"f": TEN}, {"a": {}, "b": {}}),
    "one deletes, one edits": ({"f": TEN}, {"a": {}, "b": {"f": B3}}),
    "an empty file": ({"f": b""}, {"a": {"f": b"a\n"}, "b": {"f": b"b\n"}}),
    "one empties": ({"f": TEN}, {"a": {"f": b""}, "b": {"f": A3}}),
    "binary": ({"f": b"\0\n1\n2\n"}, {"a": {"f": b"\0\nA\n2\n"}, "b": {"f": b"\0\n1\nB\n"}}),
    "becomes binary": ({"f": b"0\n1\n2\n"}, {"a": {"f": b"\0\n1\n2\n"}, "b": {"f": b"0\n1\nB\n"}}),
    "no longer binary": ({"f": b"\0\n1\n2\n3\n"}, {"a": {"f": b"0\n1\n2\n3\n"}, "b": {"f": b"0\n1\n2\nB\n"}}),
    "binary in one copy": ({"f": b"\0\n1\n2\n"}, {"a": {"f": b"\0\nA\n2\n"}, "b": {"f": b"\0\n1\n2\n"}}),
}


def merged(base: Files, copies: Mapping[str, Files]) -> tuple[dict[str, bytes | None], list[tuple[str, Any, int]]]:
    """Return the changes, and the conflicts as (path, copies, line)."""
    changed: dict[str, bytes | None] = {}
    conflicts: list[tuple[str, Any, int]] = []
    for path in sorted({*base, *(path for files in copies.values() for path in files)}):
        old = base.get(path)
        new = {name: files.get(path) for name, files in copies.items()}
        new = {name: content for name, content in new.items() if content != old}
        if not new:
            continue
        if len(set(new.values())) == 1:
            changed[path] = next(iter(new.values()))
        elif None in (old, *new.values()) or any(b"\0" in (content or b"") for content in (old, *new.values())):
            conflicts.append((path, tuple(new), 0))
        else:
            content, conflict = _by_marks(_split(old or b""), {name: _split(body or b"") for name, body in new.items()})
            if conflict:
                conflicts.append((path, *conflict))
            else:
                changed[path] = content
    return changed, conflicts


def _split(content: bytes) -> list[bytes]:
    lines = [line + b"\n" for line in content.split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _by_marks(old: list[bytes], new: dict[str, list[bytes]]) -> tuple[bytes, Any]:
    """Mark the gap before line i as 2 i, and line i as 2 i + 1; a mark with two different hunks is a conflict."""
    marks: dict[int, dict[tuple[int, int, bytes], list[str]]] = {}
    for name, lines in new.items():
        for code, first, last, a, b in difflib.SequenceMatcher(None, old, lines, False).get_opcodes():
            if code != "equal":
                for mark in range(2 * first, 2 * last + 1):
                    hunk = (first, last, b"".join(lines[a:b]))
                    marks.setdefault(mark, {}).setdefault(hunk, []).append(name)
    clashes = [hunks for hunks in marks.values() if len(hunks) > 1]
    if clashes:
        names = {name for hunks in clashes for found in hunks.values() for name in found}
        return b"", (tuple(name for name in new if name in names), 1 + min(min(hunks)[0] for hunks in clashes))
    pieces = dict(zip(range(1, 2 * len(old), 2), old, strict=True))
    for hunks in marks.values():
        for first, last, body in hunks:
            for mark in range(2 * first, 2 * last + 1):
                pieces[mark] = b""
            pieces[2 * first] = body
    return b"".join(pieces[mark] for mark in sorted(pieces)), None


def told(merge: Any) -> tuple[dict[str, bytes | None], list[tuple[str, Any, int]]]:
    """Return a merge in the form of `merged`."""
    return dict(merge.changed), [(each.path, tuple(each.copies), each.line) for each in merge.conflicts]
