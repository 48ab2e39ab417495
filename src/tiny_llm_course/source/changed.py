"""A change of a text: old words, which must stand in it exactly once, and new ones. It knows of no language."""

import textwrap
from collections.abc import Sequence

Edit = tuple[str, str]  # the old words and the new ones


class DoesNotApply(ValueError):
    """A change does not fit the text; the message says why."""


def changed(text: str, edits: Sequence[Edit]) -> str:
    """The text after some changes, one after the other.

    Old words of one line may be a part of it. Several lines are whole lines, at whatever indentation they stand. New
    lines are indented as the place is.

    Raises:
        DoesNotApply: some old words do not stand there exactly once.
    """
    for old, new in edits:
        if "\n" in old:
            text = _whole_lines(text, _lines(old), _lines(new))
            continue
        _must_be_once(text.count(old), old)
        before, after = text.split(old)
        margin = _margin(before.rpartition("\n")[2] + old)
        text = before + f"\n{margin}".join(_lines(new)) + after
    return text


def _lines(words: str) -> list[str]:
    """The lines of old or new words, as far left as they go; several may have a line break before and behind them."""
    return textwrap.dedent(words).strip("\n").split("\n") if "\n" in words else [words]


def _whole_lines(text: str, old: list[str], new: list[str]) -> str:
    lines = text.split("\n")
    places = [i for i, line in enumerate(lines) if lines[i : i + len(old)] == _indented(old, _margin(line))]
    _must_be_once(len(places), f"{old[0]}...")
    (first,) = places
    lines[first : first + len(old)] = _indented(new, _margin(lines[first]))
    return "\n".join(lines)


def _must_be_once(times: int, old: str) -> None:
    if times != 1:
        raise DoesNotApply(f"{old!r} stands {times} times")


def _margin(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _indented(lines: list[str], margin: str) -> list[str]:
    return [margin + line if line else line for line in lines]
