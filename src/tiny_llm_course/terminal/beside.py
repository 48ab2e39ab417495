"""Two texts beside each other, or one below the other where the terminal is narrow, with a sign where they part."""

import itertools
import re
from typing import NamedTuple

from .screen import USUAL
from .streamed import Flow
from .wrapping import cells

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
