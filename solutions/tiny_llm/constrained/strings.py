"""JSON strings as expressions: characters, escapes, and texts of a regular expression."""

import json
from collections.abc import Iterable

from .expression import MAX_CODE_POINT, Chars, Choice, Expression, Repeat, Sequence, excluding, literal

QUOTE = literal('"')
SHORT = {8: "b", 9: "t", 10: "n", 12: "f", 13: "r", 34: '"', 92: "\\"}
# What a string has only as an escape: JSON requires it for all but DEL, which terminals do not show.
SPECIAL = (*range(32), 34, 92, 127)
PLAIN = excluding(*((code, code) for code in SPECIAL))


def quoted(content: Expression) -> Expression:
    """Return the content between quotes."""
    return Sequence((QUOTE, content, QUOTE))


def escapes(code: int) -> list[Expression]:
    r"""Return the ways to write a code point of SPECIAL: as \n or \u000a. No other character is written as \u.

    So there is no \ud83d, which is half of a character.
    """
    ways = [literal("\\" + SHORT[code])] if code in SHORT else []
    if code not in (34, 92):
        digits = [Chars(tuple((ord(each), ord(each)) for each in {char, char.upper()})) for char in f"{code:02x}"]
        ways.append(Sequence((literal("\\u00"), *digits)))
    return ways


def escaped(part: Expression) -> Expression:
    """Return the expression of a regular expression's texts inside a JSON string: what must be escaped is."""
    if isinstance(part, Chars):
        ranges = [
            (max(first, low), min(last, high)) for first, last in part.ranges for low, high in PLAIN.ranges
            if max(first, low) <= min(last, high)
        ]  # fmt: skip
        ways = [way for code in SPECIAL for way in escapes(code) if any(a <= code <= b for a, b in part.ranges)]
        return Choice((Chars(tuple(ranges)), *ways))
    if isinstance(part, Sequence):
        return Sequence(tuple(map(escaped, part.parts)))
    if isinstance(part, Choice):
        return Choice(tuple(map(escaped, part.options)))
    if isinstance(part, Repeat):
        return Repeat(escaped(part.part), part.least, part.most)
    return part


def constant(value: object) -> Expression:
    """Return the expression of one JSON value, with compact separators; its strings may use any escapes."""
    if isinstance(value, str):
        return quoted(escaped(literal(value)))
    if isinstance(value, list):
        return Sequence((literal("["), *_with_commas(map(constant, value)), literal("]")))
    if isinstance(value, dict):
        pairs = (Sequence((property_key(name), constant(each))) for name, each in value.items())
        return Sequence((literal("{"), *_with_commas(pairs), literal("}")))
    return literal(json.dumps(value))


def _with_commas(parts: Iterable[Expression]) -> list[Expression]:
    return [each for part in parts for each in (literal(","), part)][1:]


def property_key(name: str) -> Expression:
    """Return the expression of a property's name and the colon: one way to write it, that of `json.dumps`."""
    return literal(json.dumps(name, ensure_ascii=False) + ":")


CHARACTER = escaped(Chars(((0, MAX_CODE_POINT),)))
