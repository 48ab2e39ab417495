"""Streaming word wrap, and two texts side by side with a mark at their first difference."""

import itertools
import re
from collections.abc import Callable
from typing import NamedTuple

from .screen import USUAL
from .wrapping import cells, wide

WIDE = 90  # columns for two texts side by side
BETWEEN = " | "
SIGN = "▸"
# A word and the white space before it.
WORD = re.compile(r"\s*\S+")


class Parting(NamedTuple):
    """The first word in which two texts differ: its number, from 1, and the word in each; "" after an end."""

    number: int
    left: str
    right: str


def parting(left: str, right: str) -> Parting | None:
    """Return the first difference of two texts, ignoring white space at their ends; None if there is none."""
    pairs = itertools.zip_longest(WORD.findall(left), WORD.findall(right), fillvalue="")
    for number, (ours, theirs) in enumerate(pairs, start=1):
        if ours != theirs:
            return Parting(number, ours.strip(), theirs.strip())
    return None


def signed(text: str, place: Parting | None) -> str:
    """Return the text with the mark before the first differing word."""
    if place is None:
        return text
    words = WORD.findall(text)
    before = "".join(words[: place.number - 1])
    after = text[len(before) :]
    word = after.lstrip() or after
    return f"{before}{after[: len(after) - len(word)] or ' '}{SIGN}{word}"


def beside(left: tuple[str, str], right: tuple[str, str], width: int | None) -> list[str]:
    """Return two texts, each with its heading, as lines for a terminal of this width (None: no terminal)."""
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
    """Wraps text as it streams, and passes it to `write`. A word is held back until it ends, to know its line."""

    def __init__(self, write: Callable[[str], None], columns: int | None) -> None:
        self._write = write
        self._columns = columns  # None: no terminal, so text passes unchanged
        self._at = 0  # columns used on this line
        self._gap = ""  # the spaces before the held-back word
        self._word = ""

    def add(self, text: str) -> None:
        """Append text."""
        if self._columns is None:
            self._write(text)
        elif said := "".join(self._accept(character, self._columns) for character in text):
            self._write(said)

    def end(self) -> None:
        """Write the held-back word at the end of the text."""
        if self._columns is not None:
            self._write(self._placed(self._columns))

    def _accept(self, character: str, columns: int) -> str:
        """Return what this character allows to be written."""
        if not character.isspace():
            before = self._placed(columns) if wide(character) else ""  # a line may break before it
            self._word += character
            ended = wide(character) or cells(self._word) >= columns
            return before + (self._placed(columns) if ended else "")
        said = self._placed(columns)
        if character == "\n":
            self._at, self._gap = 0, ""
            return f"{said}\n"
        self._gap += character
        return said

    def _placed(self, columns: int) -> str:
        """Return the held-back word, on this line or the next."""
        if not self._word:
            return ""
        gap, word, self._gap, self._word = self._gap, self._word, "", ""
        begin = len(f"{' ' * self._at}{gap}".expandtabs(8))
        if begin + cells(word) > columns:
            gap, begin = "\n" if self._at else "", 0
        self._at = begin + cells(word)
        return gap + word
