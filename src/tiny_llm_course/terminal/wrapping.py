"""Breaks a line that is too long for a terminal: between words, and never within a command that somebody will copy."""

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

# A line's indentation, its mark, and a name of its own column: "✓ Python     3.12", "      case      float32, x 2 x 3".
HEAD = re.compile(r"(?P<begin> *(?:[✓✗○⇢~|] )?)(?P<name>\S+ {2,}|Next: )?")
# A line that begins otherwise is one of a list: "1.2.1 Rotation angles: returned".
SENTENCE = re.compile(r"[A-Z'\"(]")
# Words with spaces inside that belong together: a prompt, what is in quotes, "query 3 x 4", "3.8 s".
WORD = re.compile(
    r"""( *)(\$ \S+|(?:"[^"]*"|'[^']*')\S*|(?:[a-z]\w* )?\d+(?: x \d+)+\S*"""
    r"""|\d[\d.]* (?:m?s|[MG]B|h|min|%)(?!\w)\S*|\S+)"""
)
# A command's first words, an option with its value, or a word.
ARGUMENT = re.compile(
    r"""^(?:\$ )?\S+(?: [a-z][a-z-]*(?= |$))*"""
    r"""|(?:--?\w\S* )?(?:"[^"]*"\S*|'[^']*'\S*|[^\s-]\S*)|\S+"""
)
# The parts of a list in one line, each of which is better on one line than on two.
PART = re.compile(r"(?<= ·)(?= [^A-Z])")

# A line of the learner's on the way to an error: "src/tiny_llm/basics.py:12  return x @ w".
FRAME = re.compile(r"( *)(\S+:\d+)  (.*)")
# What moves the cursor or changes colours, which a learner's print may hold.
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

PROGRAMS = ("pdm", "git", "pipx", "cp", "chmod", "unset", "sudo", "softwareupdate", "xcode-select")
# A command goes on after these with one more word; any other plain word is the sentence's again.
LEADING = (*PROGRAMS, "run", "pip", "dev", "cache", "remote", "add", "stash", "lfs", "apt-get")
ANNOUNCING = 5  # words at most: "To take it back: pdm run return 1.1"
STOPS = (",", ";", ":", ".", ")", "`")


class Piece(NamedTuple):
    """What stays on one line."""

    gap: str  # before it, unless it begins a line
    text: str
    joint: str = ""  # ends the line before it, if it begins one
    room: int = 0  # columns to keep free after it


def wrapped(line: str, columns: int, hanging: bool = True) -> list[str]:
    """The line as lines of at most so many columns; what follows a break is set in below the beginning.

    A word that is wider stays whole. A command stays on one line if it fits on one, and goes on after a backslash if
    it does not, as a shell takes it.
    """
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
        # Rather set in by less than broken by the terminal.
        spare = columns - cells(piece.text) - piece.room
        indent = margin + 2 * bool(piece.joint) if lines else len(begin)
        now = " " * max(0, min(indent, spare)) + piece.text
    return [*lines, now]


def excerpt(line: str, columns: int) -> list[str]:
    """The line, which is code or was printed by it, cut rather than broken; after its place, if it has one."""
    line = ESCAPE.sub("", line).expandtabs()
    if cells(line) > columns and (frame := FRAME.fullmatch(line)):
        indent, place, code = frame.groups()
        return [f"{indent}{place}", cut(f"{indent}  {code}", columns)]
    return [cut(line, columns)]


def cut(line: str, columns: int) -> str:
    """The line, or what fits of it and an ellipsis."""
    if cells(line) <= columns:
        return line
    end, width = 0, 0
    while (width := width + cells(line[end])) < columns:
        end += 1
    return f"{line[:end].rstrip()}…"


def cells(text: str) -> int:
    """How many columns a text takes: two for a Chinese letter, none for an accent that stands on another letter."""
    if text.isascii():
        return len(text)
    return sum((1 + wide(c)) * (unicodedata.category(c) not in ("Mn", "Me", "Cf")) for c in text)


def wide(letter: str) -> bool:
    """Whether a letter takes two columns. Between such letters are no spaces, and a line may be broken."""
    return unicodedata.east_asian_width(letter) in "WF"


def _set_in(line: str, columns: int) -> tuple[str, int]:
    """What the line begins with, and by how much the lines after it are set in: as far as its text, if that is near."""
    head = HEAD.match(line)
    assert head  # which may be empty
    begin = head["begin"]
    if head["name"] and head.end() <= columns // 3:
        return begin, head.end()
    if not begin and SENTENCE.match(line):
        return begin, 0
    return begin, min(len(begin) - len(begin.lstrip(" ")) + 2, columns // 3)


def _pieces(text: str, room: int, most: int) -> Iterator[Piece]:
    """The text in pieces, as large as the room allows; a command may have `most` columns."""
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
    """The words with the spaces before them; a command is one word, and stays beside what announces it."""
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
    """Where "To have it:", short enough to stay beside its command, begins; as an index from the end, or 0."""
    if not found[-1][1][-1].endswith(":"):
        return 0
    for begin in range(-1, -min(len(found), ANNOUNCING) - 1, -1):
        if begin == -len(found) or found[begin][0] != " " or found[begin - 1][1][-1].endswith((".", ";")):
            return begin
    return 0


def _is_command(word: str) -> bool:
    return word.removeprefix("$ ").lstrip("(`").split(" ")[0] in PROGRAMS


def _goes_on(command: str, word: str) -> bool:
    """Whether the next word is still the command's."""
    *_, last = command.split(" ")
    if last.endswith(STOPS) and last != "...":
        return False
    bare = word.rstrip("".join(STOPS))
    if not bare or not re.fullmatch(r"[a-z][a-z-]*", bare):  # an option, a path, a number, something in quotes, NAME
        return True
    return last.startswith("-") or last.lstrip("(`") in LEADING or "install" in command.split(" ")[:-1]


def _arguments(command: str, most: int) -> list[str]:
    """The parts of a command; an option keeps its value, unless both are too wide for one line."""
    parts = ARGUMENT.findall(command)
    return [p for part in parts for p in (part.split(" ", 1) if part[0] == "-" and cells(part) >= most else [part])]


def _broken(gap: str, word: str, room: int, most: int) -> Iterator[Piece]:
    """One word that may be too wide for the room, in pieces that fit."""
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
        for letter in word:
            yield Piece(gap, letter)
            gap = ""
    else:
        yield Piece(gap, word)
