"""Compare a learner's texts and lists with the expected ones; the texts at which programs go wrong."""

from collections.abc import Callable
from typing import Any

from ..course.findings import CheckFailed, Finding, Kind
from .cases import noted, type_words
from .errors import fail, fail_if_different
from .relations import compared

# Lengths of words, in bytes or characters: all small ones, and just past common limits.
LENGTHS = (*range(1, 21), 32, 33, 64, 65, 100, 128, 131, 257)


def awkward_texts() -> list[str]:
    """Return texts at which programs go wrong, of every kind and many lengths; the shortest first."""
    ascii_characters = [chr(n) for n in range(128)]
    main = ["thatdogis", "1234567890", "a", "\u00e9"]
    others = ["\u72d7", "\U0001f415", "e\u0301", " ", "\n", "!?", "'", "0 "]
    words = [(kind * n)[:n] for kind in main for n in LENGTHS]
    words += [(kind * n)[:n] for kind in others for n in LENGTHS[1::4]]
    # At both ends of a text, where programs strip, and in the middle of one.
    several = [f"{odd}dog{odd}dog{odd}" for odd in " \n\t\r\x00\x1c\x7f\xa0\u200b\u2028\u3000\ufeff"]
    several += [
        "".join(map(chr, range(256))),
        "I'll say that's 1 dog's, we'd've 22 DOG'S!",
        "\u0645\u0631\u062d\u0628\u0627 \ud55c\uad6d\uc5b4 \u1112\u1161\u11ab \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \ufb01\u00bd\u2460\u00a0x\u2028\u3000y\ufeff",
        "def f(x):\n    return x ** 2  # 4096\n\n\n\t\tif x:\r\n",
        " ".join(f"That is blue dog {n}, of {n * n}." for n in range(60)),
    ]
    return sorted(dict.fromkeys(["", *ascii_characters, *words, *several]), key=len)


def again(call: Callable[[], Any], case: str) -> Any:
    """Call a learner's program twice, check that the results are equal and no shared list, and return the first."""
    with noted(case):
        first = call()
        kept = list(first) if isinstance(first, list) else first
        second = call()
    if isinstance(first, list) and second is first:
        headline = "the second call returned the first call's list: a change to one changes both"
        raise CheckFailed(Finding(Kind.VALUES, headline, (), case, len(kept), indirect=True))
    if isinstance(first, list | str) and second != kept:
        lines = (f"first     {_cut(ascii(kept))}", f"second    {_cut(ascii(second))}")
        headline = "the second call with the same inputs returned something else"
        raise CheckFailed(Finding(Kind.VALUES, headline, lines, case, len(kept), indirect=True))
    return kept


def same_text(actual: Any, expected: str, case: str, size: int | None = None) -> None:
    """Check that a text is the expected one, or report where they first differ. `size` is by default its length."""
    size = len(expected) if size is None else size
    if type(actual) is not str:
        raise CheckFailed(Finding(Kind.TYPE, f"got {type_words(actual)}, expected a str", (), case, size))
    if actual != expected:
        headline, at = _parting(actual, expected, "text")
        begin = max(0, at - 8)
        both = (("expected  ", expected), ("got       ", actual))
        lines = [f"{name}{_cut(ascii(text[begin : at + 12]))}" for name, text in both]
        lines += [f"both from character {begin} on"] * bool(begin) + compared(actual, expected)
        raise CheckFailed(Finding(Kind.VALUES, headline, tuple(lines), case, size))


def same_number(actual: Any, expected: int, what: str, case: str) -> None:
    """Check that a value is the expected int."""
    if type(actual) is not int:
        fail(Kind.TYPE, f"{what} is {type_words(actual)}, expected an int", case)
    fail_if_different(f"{what} is wrong", expected, actual, case)


def same_ids(actual: Any, expected: list[int], case: str, noun: str = "ids") -> None:
    """Check that a list of token ids, or of other ints, is the expected one, or report where they first differ."""
    _same_list(actual, expected, int, noun, case)


def same_pieces(actual: Any, expected: list[str], case: str, noun: str = "pieces") -> None:
    """Check that a list of strings is the expected one, or report where they first differ."""
    _same_list(actual, expected, str, noun, case)


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
        raise CheckFailed(Finding(Kind.VALUES, headline, (*lines, *compared(actual, expected)), case, size))


def _parting(actual: Any, expected: Any, noun: str) -> tuple[str, int]:
    """Return where two texts or lists first differ, in words and as an index."""
    pairs = enumerate(zip(actual, expected, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(actual), len(expected)))
    length = "" if len(actual) == len(expected) else f": length {len(actual)} instead of {len(expected)}"
    return f"wrong {noun}{length}, first different at index {at}", at


def _window(items: list[Any], begin: int) -> str:
    shown = ", ".join(_cut(ascii(item)) for item in items[begin : begin + 8])
    return f"[{'..., ' * (begin > 0)}{shown}{', ...' * (len(items) > begin + 8)}]"


def _cut(text: str) -> str:
    return text if len(text) <= 90 else f"{text[:86]} ..."
