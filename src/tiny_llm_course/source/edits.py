"""Edits of a text in any language: old words, which must occur exactly once, and new ones."""

import textwrap
from collections.abc import Sequence

Edit = tuple[str, str]  # the old words and the new ones


class DoesNotApply(ValueError):
    """An edit does not fit the text; the message says why."""


def changed(text: str, edits: Sequence[Edit]) -> str:
    """Apply some edits, one after the other. Raise DoesNotApply if old words do not occur exactly once.

    Old words of one line may be part of it; several are whole lines at any indentation, to which new ones are indented.
    """
    for old, new in edits:
        if "\n" in old:
            lines, wanted = text.split("\n"), _lines(old)
            size = len(wanted)
            places = [i for i, line in enumerate(lines) if lines[i : i + size] == _indented(wanted, _margin(line))]
            _must_be_once(len(places), f"{wanted[0]}...")
            lines[places[0] : places[0] + size] = _indented(_lines(new), _margin(lines[places[0]]))
            text = "\n".join(lines)
            continue
        _must_be_once(text.count(old), old)
        before, after = text.split(old)
        margin = _margin(before.rpartition("\n")[2] + old)
        text = before + f"\n{margin}".join(_lines(new)) + after
    return text


def _lines(words: str) -> list[str]:
    """Split words into dedented lines; several may start and end with a line break."""
    return textwrap.dedent(words).strip("\n").split("\n") if "\n" in words else [words]


def _must_be_once(times: int, old: str) -> None:
    if times != 1:
        raise DoesNotApply(f"{old!r} occurs {times} times")


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _indented(lines: list[str], margin: str) -> list[str]:
    return [margin + line if line else line for line in lines]
