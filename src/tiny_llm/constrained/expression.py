"""Expressions over characters and rules, of which the rules of a grammar consist."""

from dataclasses import dataclass

MAX_CODE_POINT = 0x10FFFF


@dataclass(frozen=True)
class Chars:
    """One character of a class."""

    ranges: tuple[tuple[int, int], ...]  # code points, first and last


@dataclass(frozen=True)
class Call:
    """A text that the rule of this name derives."""

    rule: str


@dataclass(frozen=True)
class Sequence:
    """One text of each part, one after another; without parts, the empty text."""

    parts: "tuple[Expression, ...]"


@dataclass(frozen=True)
class Choice:
    """A text of one of the options; at least one."""

    options: "tuple[Expression, ...]"


@dataclass(frozen=True)
class Repeat:
    """`least` to `most` texts of a part, one after another; any number from `least` on if `most` is None."""

    part: "Expression"
    least: int = 0
    most: int | None = None


Expression = Chars | Call | Sequence | Choice | Repeat
EMPTY = Sequence(())


def size(expression: Expression) -> int:
    """Return about how many states an automaton has for an expression before it is made deterministic."""
    if isinstance(expression, Sequence):
        return 1 + sum(map(size, expression.parts))
    if isinstance(expression, Choice):
        return 1 + sum(map(size, expression.options))
    if isinstance(expression, Repeat):
        return 1 + size(expression.part) * max(expression.least, expression.most or expression.least + 1)
    return 1 if isinstance(expression, Call) else 1 + len(expression.ranges)


def literal(text: str) -> Expression:
    """Return the expression of exactly this text."""
    return Sequence(tuple(Chars(((ord(char), ord(char)),)) for char in text))


def chars(*ranges: str) -> Chars:
    """Return a class of characters: "az" is the range from a to z, "-" the character itself."""
    return Chars(tuple((ord(each[0]), ord(each[-1])) for each in ranges))


def excluding(*ranges: tuple[int, int]) -> Chars:
    """Return the class of all characters except these ranges of code points."""
    kept, start = [], 0
    for first, last in sorted(ranges):
        if start < first:
            kept.append((start, first - 1))
        start = max(start, last + 1)
    return Chars((*kept, (start, MAX_CODE_POINT)) if start <= MAX_CODE_POINT else tuple(kept))


def optional(part: Expression) -> Expression:
    """Return the expression of the part or nothing."""
    return Repeat(part, 0, 1)


def separated(part: Expression, least: int, most: int | None) -> Expression:
    """Return the expression of `least` to `most` parts with commas between them."""
    if most == 0:
        return EMPTY
    rest = Repeat(Sequence((literal(","), part)), max(least - 1, 0), None if most is None else most - 1)
    return Sequence((part, rest)) if least else optional(Sequence((part, rest)))
