"""Text broken between words as it comes, and two texts beside each other, with a sign where they part."""

import itertools
import re
from collections.abc import Callable
from typing import NamedTuple

from .screen import USUAL
from .wrapping import cells, wide

WIDE = 90  # columns from which two texts fit beside each other
BETWEEN = " | "
SIGN = "▸"
# A word with the white space before it.
WORD = re.compile(r"\s*\S+")


class Parting(NamedTuple):
    """The first word in which two texts differ: its number, counted from 1, and the word in each; "" behind an end."""

    number: int
    left: str
    right: str


def parting(left: str, right: str) -> Parting | None:
    """Where two texts part, but for white space at their ends; None if they do not."""
    pairs = itertools.zip_longest(WORD.findall(left), WORD.findall(right), fillvalue="")
    for number, (ours, theirs) in enumerate(pairs, start=1):
        if ours != theirs:
            return Parting(number, ours.strip(), theirs.strip())
    return None


def signed(text: str, place: Parting | None) -> str:
    """The text with the sign before the word where it parts from another."""
    if place is None:
        return text
    words = WORD.findall(text)
    before = "".join(words[: place.number - 1])
    after = text[len(before) :]
    word = after.lstrip() or after
    return f"{before}{after[: len(after) - len(word)] or ' '}{SIGN}{word}"


def beside(left: tuple[str, str], right: tuple[str, str], width: int | None) -> list[str]:
    """The lines of two texts, each with its heading, for a terminal of this width; None: there is none."""
    if width is None or width < WIDE:
        room = min(width or USUAL, USUAL)
        return [*_below(*left, room), "", *_below(*right, room)]
    room = (width - len(BETWEEN)) // 2
    columns = [[heading, "", *_flowed(text, room)] for heading, text in (left, right)]
    rows = itertools.zip_longest(*columns, fillvalue="")
    return [f"{ours}{' ' * (room - cells(ours))}{BETWEEN}{theirs}".rstrip() for ours, theirs in rows]


def _below(heading: str, text: str, room: int) -> list[str]:
    return [heading, "", *(f"    {line}".rstrip() for line in _flowed(text, room - 4))]


def _flowed(text: str, room: int) -> list[str]:
    said: list[str] = []
    flow = Flow(said.append, room)
    flow.add(text)
    flow.end()
    return "".join(said).split("\n")


class Flow:
    """Hands text on to `write`. A word waits until it has ended: only then is it known which line it is for."""

    def __init__(self, write: Callable[[str], None], columns: int | None) -> None:
        self._write = write
        self._columns = columns  # None: no terminal, so all is handed on as it comes
        self._at = 0  # how far the line has come
        self._gap = ""  # the spaces before the word that waits
        self._word = ""

    def add(self, text: str) -> None:
        """Take some more text."""
        if self._columns is None:
            self._write(text)
        elif said := "".join(self._let_out(letter, self._columns) for letter in text):
            self._write(said)

    def end(self) -> None:
        """Nothing more comes: write what waits."""
        if self._columns is not None:
            self._write(self._placed(self._columns))

    def _let_out(self, letter: str, columns: int) -> str:
        """What can be written now that this letter is known."""
        if not letter.isspace():
            before = self._placed(columns) if wide(letter) else ""  # it may begin a line: it ends what came before
            self._word += letter
            ended = wide(letter) or cells(self._word) >= columns
            return before + (self._placed(columns) if ended else "")
        said = self._placed(columns)
        if letter == "\n":
            self._at, self._gap = 0, ""
            return f"{said}\n"
        self._gap += letter
        return said

    def _placed(self, columns: int) -> str:
        """The word that waits, in this line or the next one."""
        if not self._word:
            return ""
        gap, word, self._gap, self._word = self._gap, self._word, "", ""
        begin = len(f"{' ' * self._at}{gap}".expandtabs(8))
        if begin + cells(word) > columns:
            gap, begin = "\n" if self._at else "", 0
        self._at = begin + cells(word)
        return gap + word
