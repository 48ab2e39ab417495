"""Breaks lines for a terminal: between words, and never inside a command that a reader may copy."""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

# Indentation, mark, and a name in a column of its own: "✓ Python     3.12", "      case      float32, x 2 x 3".
HEAD = re.compile(r"(?P<begin> *(?:[✓✗○⇢~|] )?)(?P<name>\S+ {2,}|Next: )?")
# Any other start is an item of a list: "1.2.1 Rotation angles: returned".
SENTENCE = re.compile(r"[A-Z'\"(]")
# Words that may contain spaces: a prompt, a quotation, "query 3 x 4", "3.8 s".
WORD = re.compile(
    r"""( *)(\$ \S+|(?:"[^"]*"|'[^']*')\S*|(?:[a-z]\w* )?\d+(?: x \d+)+\S*"""
    r"""|\d[\d.]* (?:m?s|[MG]B|h|min|%)(?!\w)\S*|\S+)"""
)
# A command's first words, an option with its value, or a word.
ARGUMENT = re.compile(
    r"""^(?:\$ )?\S+(?: [a-z][a-z-]*(?= |$))*"""
    r"""|(?:--?\w\S* )?(?:"[^"]*"\S*|'[^']*'\S*|[^\s-]\S*)|\S+"""
)
# The items of a one-line list, which should not be split.
PART = re.compile(r"(?<= ·)(?= [^A-Z])")

# A frame of the learner's code in a traceback: "src/tiny_llm/basics.py:12  return x @ w".
FRAME = re.compile(r"( *)(\S+:\d+)  (.*)")
# Cursor movement and colors, which a learner's print may contain.
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

PROGRAMS = ("pdm", "git", "pipx", "cp", "chmod", "unset", "sudo", "softwareupdate", "xcode-select")
# A plain word after one of these belongs to the command; after any other, to the sentence.
LEADING = (*PROGRAMS, "run", "pip", "dev", "cache", "remote", "add", "stash", "lfs", "apt-get")
ANNOUNCING = 5  # words at most, as in "To take it back: pdm run return 1.1"
STOPS = (",", ";", ":", ".", ")", "`")


class Piece(NamedTuple):
    """Text that stays on one line."""

    gap: str  # spaces before it, unless it starts a line
    text: str
    joint: str = ""  # appended to the previous line if it starts one
    room: int = 0  # columns to keep free after it


def wrapped(line: str, columns: int, hanging: bool = True) -> list[str]:
    """Return lines of at most this many columns; wider words stay whole, a long command continues after a backslash."""
    if cells(line) <= columns:
        return [line]
    begin, margin = _set_in(line, columns) if hanging else ("", 0)
    lines, now = [], begin
    for piece in _pieces(line[len(begin) :], columns - margin, columns):
        joined = f"{now}{piece.gap}{piece.text}"
        if cells(joined) + piece.room <= columns or (now == begin and begin.strip()):
            now = joined
            continue
        if now.strip():
            lines.append(f"{now.rstrip()}{piece.joint}")
        # Reduce the indentation before the terminal has to break the line.
        spare = columns - cells(piece.text) - piece.room
        indent = margin + 2 * bool(piece.joint) if lines else len(begin)
        now = " " * max(0, min(indent, spare)) + piece.text
    return [*lines, now]


def excerpt(line: str, columns: int) -> list[str]:
    """Return a line of code or output, truncated instead of wrapped; below its file and line, if it has them."""
    line = ESCAPE.sub("", line).expandtabs()
    if cells(line) > columns and (frame := FRAME.fullmatch(line)):
        indent, place, code = frame.groups()
        return [f"{indent}{place}", cut(f"{indent}  {code}", columns)]
    return [cut(line, columns)]


def cut(line: str, columns: int) -> str:
    """Return the line, truncated with an ellipsis if it is too long."""
    if cells(line) <= columns:
        return line
    end, width = 0, 0
    while (width := width + cells(line[end])) < columns:
        end += 1
    return f"{line[:end].rstrip()}…"


def cells(text: str) -> int:
    """Return the display width of a text: 2 for an East Asian wide character, 0 for a combining one."""
    if text.isascii():
        return len(text)
    return sum((1 + wide(c)) * (unicodedata.category(c) not in ("Mn", "Me", "Cf")) for c in text)


def wide(character: str) -> bool:
    """Return whether a character is two columns wide; lines may break between such characters."""
    return unicodedata.east_asian_width(character) in "WF"


def _set_in(line: str, columns: int) -> tuple[str, int]:
    """Return the line's prefix and the indentation of its continuation lines: the start of its text, if near enough."""
    head = HEAD.match(line)
    assert head  # HEAD matches the empty string
    begin = head["begin"]
    if head["name"] and head.end() <= columns // 3:
        return begin, head.end()
    if not begin and SENTENCE.match(line):
        return begin, 0
    return begin, min(len(begin) - len(begin.lstrip(" ")) + 2, columns // 3)


def _pieces(text: str, room: int, most: int) -> Iterator[Piece]:
    """Yield the text in pieces as large as `room` allows; a command may take `most` columns."""
    for part in PART.split(text):
        body = part.lstrip(" ")
        if cells(body) <= room:
            yield Piece(part[: len(part) - len(body)], body)
            continue
        for gap, words in _units(part):
            if cells(whole := " ".join(words)) <= room:
                yield Piece(gap, whole)
                continue
            for word in words:
                yield from _broken(gap, word, room, most)
                gap = " "


def _units(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the words with the spaces before them; a command is one word, joined to the words that announce it."""
    found: list[tuple[str, list[str]]] = []
    for gap, word in WORD.findall(text):
        before = found[-1][1] if found and gap == " " else None
        if before and _is_command(before[-1]) and _goes_on(before[-1], word):
            before[-1] += f" {word}"
        elif before and _is_command(word) and (begin := _announced(found)):
            found[begin:] = [(found[begin][0], [*(w for _, words in found[begin:] for w in words), word])]
        else:
            found.append((gap, [word]))
    yield from found


def _announced(found: list[tuple[str, list[str]]]) -> int:
    """Return where a short announcement such as "To have it:" starts, as a negative index; 0 if there is none."""
    if not found[-1][1][-1].endswith(":"):
        return 0
    for begin in range(-1, -min(len(found), ANNOUNCING) - 1, -1):
        if begin == -len(found) or found[begin][0] != " " or found[begin - 1][1][-1].endswith((".", ";")):
            return begin
    return 0


def _is_command(word: str) -> bool:
    return word.removeprefix("$ ").lstrip("(`").split(" ")[0] in PROGRAMS


def _goes_on(command: str, word: str) -> bool:
    """Return whether the next word is part of the command."""
    *_, last = command.split(" ")
    if last.endswith(STOPS) and last != "...":
        return False
    bare = word.rstrip("".join(STOPS))
    if not bare or not re.fullmatch(r"[a-z][a-z-]*", bare):  # an option, a path, a number, something in quotes, NAME
        return True
    return last.startswith("-") or last.lstrip("(`") in LEADING or "install" in command.split(" ")[:-1]


def _arguments(command: str, most: int) -> list[str]:
    """Return a command's parts; an option keeps its value unless both are too wide for one line."""
    parts = ARGUMENT.findall(command)
    return [p for part in parts for p in (part.split(" ", 1) if part[0] == "-" and cells(part) >= most else [part])]


def _broken(gap: str, word: str, room: int, most: int) -> Iterator[Piece]:
    """Yield one word that may be too wide, in pieces that fit."""
    if _is_command(word) and cells(word) > most and max(map(cells, arguments := _arguments(word, most))) < most:
        first, *others, last = arguments
        yield Piece(gap, first, room=2)
        yield from (Piece(" ", part, " \\", room=2) for part in others)
        yield Piece(" ", last, " \\")
    elif _is_command(word) or cells(word) <= room:
        yield Piece(gap, word)
    elif " " in word:
        for part in word.split(" "):
            yield Piece(gap, part)
            gap = " "
    elif any(map(wide, word)):
        for character in word:
            yield Piece(gap, character)
            gap = ""
    else:
        yield Piece(gap, word)
