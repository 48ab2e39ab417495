"""Texts and lists of a learner's program beside the expected ones."""

from typing import Any

from ..course.findings import CheckFailed, Finding, Kind
from .cases import type_words


def same_text(actual: Any, expected: str, case: str, size: int | None = None) -> None:
    """Check that a text is the expected one; else say where they part. A case is as large as its text by default."""
    size = len(expected) if size is None else size
    if type(actual) is not str:
        raise CheckFailed(Finding(Kind.TYPE, f"got {type_words(actual)}, expected a str", (), case, size))
    if actual != expected:
        headline, at = _parting(actual, expected, "text")
        begin = max(0, at - 8)
        told = (("expected  ", expected), ("got       ", actual))
        lines = [f"{name}{_cut(ascii(text[begin : at + 12]))}" for name, text in told]
        lines += [f"both from character {begin} on"] * bool(begin)
        raise CheckFailed(Finding(Kind.VALUES, headline, tuple(lines), case, size))


def same_ids(actual: Any, expected: list[int], case: str) -> None:
    """Check that a list of token ids is the expected one; else say where they part."""
    _same_list(actual, expected, int, "ids", case)


def same_pieces(actual: Any, expected: list[str], case: str) -> None:
    """Check that a list of strings is the expected one; else say where they part."""
    _same_list(actual, expected, str, "pieces", case)


def _same_list(actual: Any, expected: list[Any], kind: type, noun: str, case: str) -> None:
    size = len(expected)
    if type(actual) is not list:
        raise CheckFailed(Finding(Kind.TYPE, f"got {type_words(actual)}, expected a list", (), case, size))
    for i, item in enumerate(actual):
        if type(item) is not kind:
            headline = f"item {i} of the list is {type_words(item)}, expected {kind.__name__}"
            raise CheckFailed(Finding(Kind.TYPE, headline, (), case, size))
    if actual != expected:
        headline, at = _parting(actual, expected, noun)
        begin = max(0, at - 3)
        lines = [f"{name}{_window(items, begin)}" for name, items in (("expected  ", expected), ("got       ", actual))]
        raise CheckFailed(Finding(Kind.VALUES, headline, tuple(lines), case, size))


def _parting(actual: Any, expected: Any, noun: str) -> tuple[str, int]:
    """Where two texts or lists begin to differ, in words and as an index."""
    pairs = enumerate(zip(actual, expected, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(actual), len(expected)))
    if len(actual) == len(expected):
        return f"wrong {noun}, first different at index {at}", at
    return f"wrong {noun}: length {len(actual)} instead of {len(expected)}, first different at index {at}", at


def _window(items: list[Any], begin: int) -> str:
    shown = ", ".join(_cut(ascii(item)) for item in items[begin : begin + 8])
    return f"[{'..., ' * (begin > 0)}{shown}{', ...' * (len(items) > begin + 8)}]"


def _cut(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:86]} ..."
