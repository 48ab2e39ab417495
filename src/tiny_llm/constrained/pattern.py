"""Regular expressions as text, parsed to expressions."""

from .expression import EMPTY, Chars, Choice, Expression, Repeat, Sequence, excluding

SPECIAL = "\\^$.|?*+()[]{}"
CLASSES = {
    "d": Chars(((48, 57),)),
    "w": Chars(((48, 57), (65, 90), (95, 95), (97, 122))),
    "s": Chars(((9, 13), (32, 32))),
}
CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v"}
ANY = excluding((10, 10))


def parse_regex(pattern: str) -> Expression:
    """Return the expression of a regular expression that must match a whole text.

    Supported: literal characters, `.` (all but a line feed), classes such as `[a-z_]` and `[^"]`, `\\d`, `\\w`, `\\s`
    (ASCII) and their complements, `\\n \\r \\t \\f \\v`, `\\uXXXX`, groups `( )` and `(?: )`, `|`, and the quantifiers
    `* + ? {2} {2,} {2,5}`.

    Raises:
        ValueError: anything else, such as `\\b`, a backreference or a lookahead; the message has the place.
    """
    found, at = _choice(pattern, 0)
    if at < len(pattern):
        raise ValueError(f"{pattern!r}: unexpected {pattern[at]!r} at {at}")
    return found


def _choice(pattern: str, at: int) -> tuple[Expression, int]:
    options = []
    while True:
        parts, at = _parts(pattern, at)
        options.append(parts[0] if len(parts) == 1 else Sequence(tuple(parts)) if parts else EMPTY)
        if pattern[at : at + 1] != "|":
            return options[0] if len(options) == 1 else Choice(tuple(options)), at
        at += 1


def _parts(pattern: str, at: int) -> tuple[list[Expression], int]:
    parts: list[Expression] = []
    while at < len(pattern) and pattern[at] not in "|)":
        part, at = _atom(pattern, at)
        least, most, at = _quantifier(pattern, at)
        parts.append(part if (least, most) == (1, 1) else Repeat(part, least, most))
    return parts, at


def _quantifier(pattern: str, at: int) -> tuple[int, int | None, int]:
    bounds: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
    if (sign := pattern[at : at + 1]) in bounds and sign:
        found, at = bounds[sign], at + 1
    elif sign == "{":
        end = pattern.find("}", at)
        low, comma, high = pattern[at + 1 : max(end, at)].partition(",")
        if not low.isdecimal() or (high and not high.isdecimal()):
            raise ValueError(f"{pattern!r}: unsupported quantifier at {at}")
        found, at = (int(low), (int(high) if high else None) if comma else int(low)), end + 1
    else:
        return 1, 1, at
    if pattern[at : at + 1] in ("?", "+", "*", "{") and at < len(pattern):
        raise ValueError(f"{pattern!r}: unsupported quantifier at {at}")
    if found[1] is not None and found[1] < found[0]:
        raise ValueError(f"{pattern!r}: a quantifier's bounds are in the wrong order")
    return *found, at


def _atom(pattern: str, at: int) -> tuple[Expression, int]:
    if pattern[at] == "(":
        inner = at + 3 if pattern.startswith("(?:", at) else at + 1
        if pattern[inner : inner + 1] == "?":
            raise ValueError(f"{pattern!r}: unsupported group at {at}")
        found, end = _choice(pattern, inner)
        if pattern[end : end + 1] != ")":
            raise ValueError(f"{pattern!r}: the group at {at} has no end")
        return found, end + 1
    if pattern[at] == "[":
        return _class(pattern, at)
    if pattern[at] == ".":
        return ANY, at + 1
    if pattern[at] == "\\":
        return _escape(pattern, at)
    if pattern[at] in SPECIAL:
        raise ValueError(f"{pattern!r}: unexpected {pattern[at]!r} at {at}")
    return Chars(((ord(pattern[at]),) * 2,)), at + 1


def _escape(pattern: str, at: int) -> tuple[Chars, int]:
    letter = pattern[at + 1 : at + 2]
    if letter.lower() in CLASSES and letter:
        found = CLASSES[letter.lower()]
        return excluding(*found.ranges) if letter.isupper() else found, at + 2
    if letter == "u":
        try:
            code = int(pattern[at + 2 : at + 6].ljust(4), 16)
        except ValueError:
            raise ValueError(f"{pattern!r}: expected four hexadecimal digits at {at + 2}") from None
        return Chars(((code, code),)), at + 6
    if not letter or (letter.isalnum() and letter not in CONTROLS):
        raise ValueError(f"{pattern!r}: unsupported escape at {at}")
    code = ord(CONTROLS.get(letter, letter))
    return Chars(((code, code),)), at + 2


def _class(pattern: str, at: int) -> tuple[Chars, int]:
    begun, ranges = at, list[tuple[int, int]]()
    at += 1
    negated = pattern[at : at + 1] == "^"
    at += negated
    while (char := pattern[at : at + 1]) != "]":
        if not char:
            raise ValueError(f"{pattern!r}: the class at {begun} has no end")
        found, at = _escape(pattern, at) if char == "\\" else (Chars(((ord(char),) * 2,)), at + 1)
        if pattern[at : at + 1] == "-" and pattern[at + 1 : at + 2] not in ("]", "") and len(found.ranges) == 1:
            char = pattern[at + 1]
            last, at = _escape(pattern, at + 1) if char == "\\" else (Chars(((ord(char),) * 2,)), at + 2)
            if last.ranges[0][0] < found.ranges[0][0]:
                raise ValueError(f"{pattern!r}: a range of the class at {begun} is in the wrong order")
            found = Chars(((found.ranges[0][0], last.ranges[0][1]),))
        ranges += found.ranges
    return excluding(*ranges) if negated else Chars(tuple(ranges)), at + 1
